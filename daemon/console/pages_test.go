package console_test

import (
	"flag"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var (
	all         = flag.Bool("console.all", false, "look at each page in both colours, wide and narrow, with and without JavaScript")
	screenshots = flag.String("console.screenshots", "", "folder for pictures of each page; implies -console.all")
)

// looks are how pages are looked at.
func looks() (looks []consoletest.Look) {
	if !*all && *screenshots == "" {
		return []consoletest.Look{{}}
	}
	for _, width := range []int{1400, 390, 320} {
		for _, dark := range []bool{false, true} {
			looks = append(looks, consoletest.Look{Width: width, Dark: dark}, consoletest.Look{Width: width, Dark: dark, NoScript: true})
		}
	}
	return looks
}

// Each page can be read by everybody, fits the window, and does nothing that the policy refuses.
func TestPagesByThirds(t *testing.T) {
	t.Parallel()
	s := populated(t)
	for _, look := range looks() {
		p := consoletest.Open(t, s.url+"/ui/login", look) // a tab for each page would cost more than the pages do
		for i, path := range addresses(t) {
			if !storetest.InThird(i) {
				continue
			}
			p.Go(s.url + path)
			if p.Count("#live") > 0 && !look.NoScript {
				p.Streams()
			}
			p.Axe()
			p.Fits()
			if p.Count("main h1") != 1 {
				t.Errorf("%s: a page has one heading", path)
			}
			if *screenshots != "" && !look.NoScript {
				p.Screenshot(filepath.Join(*screenshots, nameOf(path, look)+".png"))
			}
		}
	}
}

// nameOf returns a name for a page in a look: overview-dark-320.
func nameOf(path string, look consoletest.Look) string {
	path, _, _ = strings.Cut(path, "?")
	name := strings.Trim(strings.ReplaceAll(strings.TrimPrefix(path, "/ui/"), "/", "-"), "-")
	if name == "" {
		name = "overview"
	}
	if look.Dark {
		name += "-dark"
	}
	if look.Width != 0 {
		name += "-" + strconv.Itoa(look.Width)
	}
	if look.NoScript {
		name += "-plain"
	}
	return name
}
