# setsid -f: a session of its own without a background job, which would ignore SIGINT; env gives every signal
# its default again, whatever this shell was started with.
pid="$(SPARK_COCKPIT_UNIT="$D" SPARK_COCKPIT_BOOT="$BOOT" SPARK_COCKPIT_LOG="$LOG" \
  setsid -f env --default-signal sh "$D/supervise.sh" 2>&1 </dev/null 9>&-)"
case "$pid" in
  '' | *[!0-9]*) echo "It could not be started in $D: $pid" >&2; exit 1 ;;
  *) echo "started $pid" ;;
esac
