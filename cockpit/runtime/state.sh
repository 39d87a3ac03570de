read_record
if running; then
  alive "$program" "$program_began" && pid=$program || pid=$leader
  echo "running pid=$pid since=$since"
elif [ -s "$D/exit-status" ]; then
  echo "ended status=$(cat "$D/exit-status")${since:+ since=$since}"
elif [ -s "$D/pid" ]; then
  echo "gone pid=${leader:-$stale}${since:+ since=$since}"
else
  echo absent
fi
