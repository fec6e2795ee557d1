package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand is hidden: it is for those who build packages.
func (a *app) manCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:     "man DIR",
		Short:   "Write a man page of each command into a folder",
		Example: `  bellhop man /usr/local/share/man/man1`,
		Args:    takes("DIR"),
		Hidden:  true,
	}, func(_ context.Context, c *cobra.Command, args []string) error {
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return fmt.Errorf("write man pages: %w", err)
		}
		root := c.Root()
		root.DisableAutoGenTag = true
		prepare(root)
		header := &doc.GenManHeader{Section: "1", Source: "Bellhop", Manual: "Bellhop"} // dated $SOURCE_DATE_EPOCH, or now
		if err := doc.GenManTree(root, header, args[0]); err != nil {
			return fmt.Errorf("write man pages: %w", err)
		}
		return readable(args[0])
	})
}

// prepare escapes the texts of commands for Markdown, from which the pages are generated.
func prepare(c *cobra.Command) {
	c.Long = markdown(c.Long)
	for _, below := range c.Commands() {
		prepare(below)
	}
}

// markdown escapes a text for Markdown: only paragraphs and indented lines keep
// their meaning.
func markdown(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "  ") {
			b.WriteString("    " + line)
			continue
		}
		b.WriteString(strings.NewReplacer(`\`, `\\`, `*`, `\*`, `<`, `\<`, "`", "\\`").Replace(line))
	}
	return b.String()
}

// readable makes the files in a folder readable to all, whatever the umask.
func readable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o644)
	})
}
