package daemon

import (
	"fmt"
	"strings"
)

// environmentHead stands at the top of the environment file.
const environmentHead = `# Settings of Bellhop, read by bellhop.service, bellhop-work@, bellhop-listen@ and
# bellhop-check when they start. Each stands here with its default, or with nothing where it has
# none: to change one, take the # in front away. What is wrong is told all at once:
#
#   systemctl restart bellhop; systemctl status bellhop
#
# A value is taken as it stands, but for quotes and backslashes: $ and % mean nothing.
# Secrets belong into files. Where a setting ends in _FILE and is not set, the
# file of its name in /etc/credstore is used, if there is one: for
# BELLHOP_REDIS_PASSWORD_FILE that is /etc/credstore/bellhop.redis-password, which
# needs no other rights than root's.
`

// EnvironmentFile returns a file for systemd's EnvironmentFile= that documents
// every setting, and sets none.
func EnvironmentFile() string {
	var b strings.Builder
	b.WriteString(environmentHead)
	for _, s := range (Config{}).Settings() {
		b.WriteByte('\n')
		for _, line := range wrap(s.Doc, 88) {
			fmt.Fprintf(&b, "# %s\n", line)
		}
		fmt.Fprintf(&b, "#%s=%s\n", s.Name, s.Default)
	}
	return b.String()
}

// wrap breaks a text between words into lines of a width, where a word is not longer.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
