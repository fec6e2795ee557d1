// Keysdoc reads doc.go of package script, and writes it with the package's current
// table of keys.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bellhopd/bellhop/notify/store/script"
)

func main() {
	source, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = write(os.Stdout, string(source))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "keysdoc:", err)
		os.Exit(1)
	}
}

// write writes a package comment with the table of keys behind the first paragraph
// of its last section.
func write(w io.Writer, source string) error {
	const heading, end = "// # Keys\n//\n", "package script\n"
	before, keys, ok := strings.Cut(source, heading)
	intro, _, told := strings.Cut(keys, "//\n")
	_, after, ends := strings.Cut(keys, end)
	if !ok || !told || !ends {
		return fmt.Errorf("there is no part %q, an intro and a table, before %q", heading, end)
	}
	table := ""
	for line := range strings.Lines(script.KeyTable()) {
		table += "//\t" + line
	}
	_, err := io.WriteString(w, before+heading+intro+"//\n"+table+end+after)
	return err
}
