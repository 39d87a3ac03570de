# Started detached by Spark Cockpit, through supervise.sh in this folder.
while IFS= read -r stat; do record=$stat; done <"/proc/$$/stat"
set -- ${record##*") "}
shift 19
echo "$$ $1" >"$SPARK_COCKPIT_UNIT/program.new"
mv "$SPARK_COCKPIT_UNIT/program.new" "$SPARK_COCKPIT_UNIT/program"
set --
