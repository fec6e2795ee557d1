package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"sync"
	"unicode"
)

//go:embed templates
var templates embed.FS

// execute returns a block of a template.
func execute(name, block string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := parsed()[name].ExecuteTemplate(&b, block, data); err != nil {
		return nil, err
	}
	return unmasked(b.Bytes()), nil
}

// unmasked returns a page in which each character that is not shown but changes what is shown around it, such as one that turns
// text or ends a line, is written as Go would: a foreign name could pass for another by these.
func unmasked(page []byte) []byte {
	masks := func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) || r == '\uFEFF'
	}
	if !bytes.ContainsFunc(page, masks) { // as nearly every page
		return page
	}
	var b bytes.Buffer
	for _, r := range string(page) {
		if masks(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// parsed returns the templates by their names, each with the layout. They are parsed when they are first needed: every
// command of the program would wait for them otherwise.
var parsed = sync.OnceValue(func() map[string]*template.Template {
	const dir = "templates/"
	layout := template.Must(template.New("").Funcs(functions).ParseFS(templates, dir+"layout.html", dir+"parts.html"))
	all := make(map[string]*template.Template)
	files, _ := templates.ReadDir("templates")
	for _, file := range files {
		if name, ok := bytes.CutSuffix([]byte(file.Name()), []byte(".html")); ok && file.Name() != "layout.html" && file.Name() != "parts.html" {
			all[string(name)] = template.Must(template.Must(layout.Clone()).ParseFS(templates, dir+file.Name()))
		}
	}
	return all
})
