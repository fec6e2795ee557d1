package daemon

import (
	"fmt"
	"strings"
)

// environmentHead is the top of the environment file.
const environmentHead = `# Settings of Bellhop, read by bellhop.service, bellhop-work@, bellhop-listen@ and
# bellhop-check when they start. Each line shows a default, or nothing if there is none. To
# change a setting, remove the # in front of it. All faults are reported at once:
#
#   systemctl restart bellhop; systemctl status bellhop
#
# A value is used as it is written, except for quotes and backslashes: $ and % have no
# meaning. Secrets belong into files. If a setting that ends in _FILE is not set, the file
# of its name in /etc/credstore is used, if there is one. For BELLHOP_REDIS_PASSWORD_FILE
# that is /etc/credstore/bellhop.redis-password; only root needs to read it.
`

// EnvironmentFile returns the text of a file for systemd's EnvironmentFile= that
// documents every setting and sets none.
func EnvironmentFile() string {
	var b strings.Builder
	b.WriteString(environmentHead)
	for _, s := range (Config{}).Settings(nil) {
		b.WriteByte('\n')
		for _, line := range wrap(s.Doc, 88) {
			fmt.Fprintf(&b, "# %s\n", line)
		}
		fmt.Fprintf(&b, "#%s=%s\n", s.Name, s.Default)
	}
	return b.String()
}

// wrap breaks a text between words into lines of at most width; a longer word has its own line.
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
