# count LIST: how many words it has.
count() { echo "$#"; }

# send SIGNAL: to every process in $ours but the leader; to the leader too with a second argument.
send() {
  for one in $ours; do
    pid=${one%:*}
    if [ "$pid" = "$leader" ] && [ -z "${2:-}" ]; then continue; fi
    ! alive "$pid" "${one#*:}" || kill -s "$1" "$pid" 2>/dev/null || :
  done
}

# wait_for SECONDS: until nothing of the unit is left; fails when something is.
wait_for() {
  end=$(($(date +%s) + $1))
  while look; [ -n "$ours" ]; do
    [ "$(date +%s)" -lt "$end" ] || return 1
    sleep 0.2
  done
}

read_record
look
if [ -z "$ours" ]; then echo "nothing of it runs"; exit 0; fi
first=$ours began_at=$(date +%s)
if [ "$GROUP" = no ] && alive "$program" "$program_began"; then
  kill -s "$SIGNAL" "$program" 2>/dev/null || :
elif running || [ "$trusted" = yes ]; then
  kill -s "$SIGNAL" -- "-$leader" 2>/dev/null || send "$SIGNAL"
else
  send "$SIGNAL"
fi
if wait_for "$GRACE"; then
  echo "SIG$SIGNAL ended its $(count $first) processes in $(($(date +%s) - began_at)) s"
  exit 0
fi
left=$(count $ours)
send KILL
# The leader ends by itself and leaves the exit status.
wait_for 2 || for try in 1 2 3; do send KILL leader; ! wait_for 2 || break; done
if [ -n "$ours" ]; then
  echo "still running after SIGKILL: $ours" >&2
  exit 1
fi
echo "SIG$SIGNAL, and after $GRACE s SIGKILL to $left of its $(count $first) processes"
