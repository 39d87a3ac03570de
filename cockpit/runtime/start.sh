exec 9>"$D/lock" || exit
flock -w 20 9 || { echo "Another start in $D has been going on for 20 seconds." >&2; exit 1; }
read_record
if running; then echo "already running ${program:-$leader}"; exit 0; fi
rm -f "$D/pid" "$D/program" "$D/exit-status" || exit
stat -c %s "$LOG" 2>/dev/null >"$D/output-from" || echo 0 >"$D/output-from" || exit
