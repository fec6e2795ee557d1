package console

import (
	"context"
	"errors"
	"html/template"
	"strings"
	"sync/atomic"
)

// Sign returns the value of a cookie.
var Sign = sign

// Patterns returns the patterns of all pages.
func Patterns() (all []string) {
	for _, p := range pages {
		if p.path != bulkPath {
			all = append(all, strings.TrimSuffix(p.path, "{$}"))
		}
	}
	return all
}

// Did counts how often the act of tests was done.
var Did atomic.Int64

const (
	bulkPath  = Root + "test/bulk"
	bulkBytes = 4 << 20
)

// Extend adds an act that only counts, and a page whose stream sends much. It is called once, before all tests.
func Extend() {
	acts = append(acts, act{path: Root + "test/act", name: "test", do: func(_ context.Context, _ *Console, v *visit) (string, int, error) {
		switch v.r.PostForm.Get("refuse") {
		case "forbidden":
			return "", 0, errForbidden
		case "failed":
			return "", 0, errors.New("<b>it</b> failed")
		}
		Did.Add(1)
		return "Done <i>once</i>", 1, nil
	}})
	parsed["bulk"] = template.Must(template.Must(parsed["fault"].Clone()).Parse(`{{define "live"}}{{.Data}}{{end}}`))
	var n atomic.Int64
	pages = append(pages, page{path: bulkPath, name: "bulk", live: true, data: func(context.Context, *Console, *visit) (any, error) {
		return strings.Repeat(string(rune('a'+n.Add(1)%26)), bulkBytes), nil
	}})
}
