# The processes of one unit, told apart from all others. $D is the unit's folder, $LOG its program's output.
# POSIX sh with builtins only, but for cat, grep and readlink: an image may lack procps and awk.

MARK="SPARK_COCKPIT_UNIT=$D"
BOOT="$(cat /proc/sys/kernel/random/boot_id) $(readlink /proc/self/ns/pid)"

# read_stat PID: sets run_state parent group session began; fails when there is no such process.
# The command's name may hold anything, a newline too; the last ") " ends it (man 5 proc).
read_stat() {
  stat=
  while IFS= read -r line || [ -n "$line" ]; do stat="$stat $line"; done 2>/dev/null <"/proc/$1/stat" || return 1
  [ -n "$stat" ] || return 1
  set -- ${stat##*") "}
  run_state=$1 parent=$2 group=$3 session=$4
  shift 19
  began=$1
}

# alive PID BEGAN: that very process runs (a zombie does not).
alive() {
  [ -n "$1" ] && read_stat "$1" && [ "$began" = "$2" ] && [ "$run_state" != Z ]
}

# read_record: sets leader leader_began since program program_began, all empty where nothing was started
# since this machine's (or this container's) boot.
read_record() {
  leader= leader_began= since= program= program_began= stale=
  if [ -s "$D/pid" ]; then
    { read -r leader leader_began since; read -r boot; } <"$D/pid"
    if [ "$boot" != "$BOOT" ]; then
      stale=$leader leader= leader_began=
    elif [ -s "$D/program" ]; then
      read -r program program_began <"$D/program"
    fi
  fi
}

running() {
  alive "$leader" "$leader_began" || alive "$program" "$program_began"
}

# anchored PID: its environment or its output names this unit. (A title set by setproctitle overwrites what
# /proc shows of the environment.)
anchored() {
  case "$marked" in *"/proc/$1/environ "*) return 0 ;; esac
  for fd in 1 2; do
    [ "$(readlink "/proc/$1/fd/$fd" 2>/dev/null)" != "$LOG" ] || return 0
  done
  return 1
}

# look: sets ours to " PID:BEGAN ..." of every living process of the unit: its session's members, those with
# the mark, those found earlier, and their descendants. A session whose leader is gone counts only when one of
# its members is anchored: its number could be another's by now.
look() {
  marked="$(grep -lzxsF -e "$MARK" /proc/[0-9]*/environ 2>/dev/null | while read -r file; do printf '%s ' "$file"; done)"
  table= members= trusted=
  if running; then trusted=yes; fi
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    read_stat "$pid" || continue
    [ "$run_state" != Z ] && [ "$pid" != "$$" ] || continue
    table="$table$pid $parent $session $began
"
    if [ -n "$leader" ] && [ "$session" = "$leader" ]; then
      if [ "$pid" = "$leader" ] && [ "$began" != "$leader_began" ]; then trusted=no; fi
      members="$members $pid"
    fi
  done
  for pid in $members; do
    [ -z "$trusted" ] || break
    if anchored "$pid"; then trusted=yes; fi
  done
  ours=" " before=
  while [ "$ours" != "$before" ]; do
    before=$ours
    while read -r pid parent session began; do
      [ -n "$pid" ] || continue
      case "$ours" in *" $pid:$began "*) continue ;; esac
      if belongs; then ours="$ours$pid:$began "; fi
    done <<TABLE
$table
TABLE
  done
  ours=${ours# }
  known=" $known$ours"
}

belongs() {
  case "$marked" in *"/proc/$pid/environ "*) return 0 ;; esac
  case "$known" in *" $pid:$began "*) return 0 ;; esac
  case "$ours" in *" $parent:"*) return 0 ;; esac
  [ "$trusted" = yes ] && [ "$session" = "$leader" ]
}

known=
