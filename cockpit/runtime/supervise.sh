# The leader of the unit's session: waits for the program, writes its exit status, and survives what the
# group is sent. Its standard output is read by the starter until the pid file stands.
trap : INT TERM HUP QUIT
D=$SPARK_COCKPIT_UNIT
while IFS= read -r stat; do record=$stat; done <"/proc/$$/stat"
set -- ${record##*") "}
shift 19
printf '%s %s %s\n%s\n' "$$" "$1" "$(date +%s)" "$SPARK_COCKPIT_BOOT" >"$D/pid.new"
log=$SPARK_COCKPIT_LOG
unset SPARK_COCKPIT_BOOT SPARK_COCKPIT_LOG
exec 3>&1 >>"$log" 2>&1 </dev/null
mv "$D/pid.new" "$D/pid"
echo "$$" >&3
exec 3>&-
sh "$D/launch.sh"
echo "$?" >"$D/exit-status.new"
mv "$D/exit-status.new" "$D/exit-status"
