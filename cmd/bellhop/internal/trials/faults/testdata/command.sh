# The command of bellhop work in a round: it notes when it begins and how it ends, and prints more
# than a pipe of one page holds. The lines of several do not mix, since each is one write. Each has 256 bytes: a signal that ends the command
# cuts a write only where a page of the file ends.
LC_ALL=C
note() {
	printf '%-255s\n' "$1 ${EPOCHREALTIME/./} $COMMAND_PROCESS/$$ $MESSAGE_TOPIC $MESSAGE_ID $MESSAGE_DUE $MESSAGE_LATE_MS $MESSAGE_ATTEMPT" >>"$COMMAND_HISTORY"
}

note call
printf '%012000d\n' 0
case $((RANDOM % 20)) in
0) note no; exit 1 ;;
1) note no; exit 75 ;;
2) note buried; exit 65 ;;
*) note ok ;;
esac
