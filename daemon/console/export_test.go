package console

import (
	"context"
	"errors"
	"html/template"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/forecast"
)

// LaidOut returns compact JSON in lines.
var LaidOut = laidOut

// Sign returns the value of the cookie of a login.
func Sign(key []byte, v *Viewer, id string, until time.Time) string {
	return login{v.Name, id, until}.sign(key, v)
}

// AllOffers returns what the box of find completes but topics.
func AllOffers() string { return allOffers() }

// Patterns returns the patterns of all pages.
func Patterns() (all []string) {
	for _, p := range pages {
		if p.path != bulkPath && p.path != brokenPath {
			all = append(all, strings.TrimSuffix(p.path, "{$}"))
		}
	}
	return all
}

// Acts returns the patterns of all acts.
func Acts() (all []string) {
	for _, a := range acts {
		if a.name != "test" {
			all = append(all, a.path)
		}
	}
	return all
}

// Did counts how often the act of tests was done, and Broken how often the page was made whose template has a fault.
var Did, Broken atomic.Int64

const (
	bulkPath   = Root + "test/bulk" // which asks Redis for nothing
	BulkBytes  = 4 << 20
	brokenPath = Root + "test/broken"
)

// ReadWithin is how long Redis may take in tests for what a page shows: one slow call makes a page fail.
const ReadWithin = time.Minute

// Extend adds an act that only counts, a page whose stream sends much, and one whose template has a fault. It is called
// once, before all tests.
func Extend() {
	cache.ReadWithin, find.CallTime = ReadWithin, ReadWithin
	acts = append(acts, act{path: Root + "test/act", name: "test", do: func(_ context.Context, _ *Console, v *visit) (string, int, error) {
		switch v.r.PostForm.Get("refuse") {
		case "forbidden":
			return "", 0, api.ErrForbidden
		case "failed":
			return "", 0, errors.New("<b>it</b> failed")
		}
		Did.Add(1)
		return "Done <i>once</i>", 1, nil
	}})
	parsed()["bulk"] = template.Must(template.Must(parsed()["fault"].Clone()).Parse(`{{define "live"}}{{.Data}}{{end}}`))
	var n atomic.Int64
	pages = append(pages, page{path: bulkPath, name: "bulk", live: true, data: func(context.Context, *Console, *visit) (any, error) {
		return strings.Repeat(string(rune('a'+n.Add(1)%26)), BulkBytes), nil
	}})
	parsed()["broken"] = template.Must(template.Must(parsed()["fault"].Clone()).Parse(`{{define "live"}}{{.Data.Missing}}{{end}}`))
	pages = append(pages, page{path: brokenPath, title: "Broken", name: "broken", live: true, data: func(context.Context, *Console, *visit) (any, error) {
		Broken.Add(1)
		return "it has no fields", nil
	}})
}

// DoneCookie is the cookie that has what was done.
const DoneCookie = doneCookie

// SetQuiet sets after what time a stream says that it is alive.
func (c *Console) SetQuiet(d time.Duration) { c.quiet = d }

// ShowsForecast reports whether a page shows a forecast that was made so long ago, while none is there in time.
func ShowsForecast(ago time.Duration) bool {
	c := foreseen{}
	c.keep("all", forecast.Forecast{Overdue: 1}, true)
	one := c.last["all"]
	one.at = one.at.Add(-ago)
	c.last["all"] = one
	return c.before("all").Overdue == 1
}

// Withhold logs an error that a viewer is not shown.
func (c *Console) Withhold(err error) { c.withheld.log(err) }
