package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var (
	inputField    = regexp.MustCompile(`<input [^>]*name="([^"]+)" value="([^"]*)"`)
	textareaField = regexp.MustCompile(`(?s)<textarea [^>]*name="([^"]+)"[^>]*>\n(.*?)</textarea>`)
	selectField   = regexp.MustCompile(`(?s)<select [^>]*name="([^"]+)"(.*?)</select>`)
	chosenOption  = regexp.MustCompile(`<option selected>(.*?)</option>`)
)

// form returns the fields of the forms of a page as it shows them, and others in their place: pairs of name and value.
func (s shown) form(others ...string) (pairs []string) {
	all := make(url.Values)
	for _, pattern := range []*regexp.Regexp{inputField, textareaField, selectField} {
		for _, found := range pattern.FindAllStringSubmatch(s.body, -1) {
			value := found[2]
			if pattern == selectField {
				value = strings.Join(chosenOption.FindStringSubmatch(value), "|")
				_, value, _ = strings.Cut(value, "|")
			}
			all.Set(found[1], html.UnescapeString(value))
		}
	}
	for i := 0; i+1 < len(others); i += 2 {
		all.Set(others[i], others[i+1])
	}
	for name := range all {
		pairs = append(pairs, name, all.Get(name))
	}
	return pairs
}

// settingsForm returns the fields of the form of settings, with others in their place: pairs of a setting and what is typed for it.
func settingsForm(page shown, typed ...string) []string {
	pairs := []string{"mode", "settings"}
	for i := 0; i+1 < len(typed); i += 2 {
		pairs = append(pairs, "set."+typed[i], typed[i+1])
	}
	return page.form(pairs...)
}

// The settings of a topic are changed on its page, which says what the command would be. What is wrong is named, stays as it was typed, and changes
// nothing.
func TestSettingsAreChanged(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	const path = "/ui/topics/order.paid"
	storetest.Set(t, s.store, "order.paid", notify.SettingsChange{Lease: new(time.Minute), OnRetry: new("pass")})
	v := s.login("root")
	page := v.get(path).is(http.StatusOK).says(`name="set.lease" value="1m" placeholder="default"`, `name="set.attempts" value="" placeholder="10"`, `<option selected>pass</option>`, "bellhop topics set order.paid NAME=VALUE")
	v.post(path, settingsForm(page, "lease", "", "concurrency", " 5 ", "branch_ttl", "")...).did("Changed settings: bellhop topics set order.paid lease= concurrency=5", path)
	settings := func() notify.TopicSettings {
		t.Helper()
		got, err := storetest.Inspector(t, s.store).Settings(t.Context(), "order.paid")
		storetest.Must(t, err)
		return got
	}
	if got := settings(); got.Lease != 30*time.Second || got.Concurrency != 5 || got.OnRetry != "pass" || len(got.Own) != 2 {
		t.Errorf("got %+v", got)
	}
	page = v.get(path).says(`name="set.lease" value="" placeholder="30s"`, `name="set.concurrency" value="5"`, "lease= concurrency=5")
	before := settings()
	refused := v.post(path, settingsForm(page, "rate", "often", "concurrency", "0", "history", "<b>")...).is(http.StatusUnprocessableEntity)
	refused.says(`rate &#34;often&#34;`, "concurrency &#34;0&#34;: write a whole number from 1 to 100000", "history", "Nothing was changed.", `name="set.rate" value="often"`, `name="set.concurrency" value="0"`, "autofocus").hides("<b>", "Nothing was published")
	if n := strings.Count(refused.body, "aria-invalid"); n != 3 {
		t.Errorf("%d fields are marked", n)
	}
	v.post(path, settingsForm(v.get(path))...).is(http.StatusUnprocessableEntity).says("settings: none is given")
	if diff := cmp.Diff(before, settings()); diff != "" {
		t.Errorf("it changed (-before +after):\n%s", diff)
	}
	s.login("shop").get(path).is(http.StatusOK).says("<h2>Settings</h2>", `<td class="at">pass</td>`).hides(`name="set.`, "Change the settings", "NAME=VALUE")
}

// A setting that somebody else changed since the page was read is refused in words, and goes once that was seen; others go beside it.
func TestSettingsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	s := open(t)
	const path = "/ui/topics/order.paid"
	storetest.Set(t, s.store, "order.paid", notify.SettingsChange{Lease: new(time.Minute)})
	v := s.visitor()
	first, second := v.get(path), v.get(path)
	storetest.Set(t, s.store, "order.paid", notify.SettingsChange{Lease: new(2 * time.Minute)})
	v.post(path, settingsForm(first, "attempts", "3")...).did("Changed settings: bellhop topics set order.paid attempts=3", path)
	refused := v.post(path, settingsForm(second, "lease", "3m", "rate", "7/s")...).is(http.StatusUnprocessableEntity)
	refused.says("lease: it is 2m now, and was 1m when the page was read", `name="set.lease" value="3m"`, `name="set.rate" value="7/s"`, `name="set.attempts" value="3"`)
	got, err := storetest.Inspector(t, s.store).Settings(t.Context(), "order.paid")
	if err != nil || got.Lease != 2*time.Minute || got.Attempts != 3 || got.Rate != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	v.post(path, settingsForm(refused, "lease", "3m", "rate", "7/s")...).did("Changed settings: bellhop topics set order.paid lease=3m rate=7/s", path)
}

// Whatever is typed as a setting is inert, and too much is refused.
func TestHostileSettings(t *testing.T) {
	t.Parallel()
	s := open(t)
	v := s.visitor()
	const path = "/ui/topics/order.paid"
	for _, text := range append(inertOnly, "\x00", "5\x00") {
		v.post(path, settingsForm(v.get(path), "rate", text, "branches", text, "on_dead", text)...).is(http.StatusUnprocessableEntity).
			hides("<script>alert", "<img src=x", "<svg/onload", "<b>bold", "<iframe", "\x00")
	}
	v.post(path, settingsForm(v.get(path), "rate", strings.Repeat("<", 1<<20))...).is(http.StatusRequestEntityTooLarge)
	form := settingsForm(v.get(path), "attempts", "3")
	v.post(path, form...).is(http.StatusSeeOther)
	v.post(path, form...).is(http.StatusConflict).says("sent before")
	v.post(path, v.get(path).form("mode", "settings", "edition", "0")...).is(http.StatusConflict).says("The daemon was updated")
}

// Settings are changed in a browser, with JavaScript, which says the command while one types, and without.
func TestSettingsInABrowser(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]consoletest.Look{"with JavaScript": {Dark: true}, "without": {NoScript: true, Width: 390}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			storetest.Set(t, s.store, "order.paid", notify.SettingsChange{Lease: new(time.Minute)})
			p := s.browse("/ui/topics/order.paid", look)
			p.Type("input[name='set.concurrency']", "five")
			p.Expect("422")
			p.Loads(func() { p.Click("button[value=settings]") })
			p.Await(".fault:not(#lost)", "concurrency")
			if !look.NoScript {
				p.Await("code[data-command]", "bellhop topics set order.paid concurrency=five")
			}
			p.Axe()
			p.Fits()
			p.Type("input[name='set.concurrency']", "5")
			p.Type("input[name='set.attempts']", "a b'c")
			if !look.NoScript {
				p.Await("code[data-command]", `bellhop topics set order.paid attempts='a b'\''c' concurrency=5`)
			}
			p.Type("input[name='set.attempts']", "7")
			p.Loads(func() { p.Click("button[value=settings]") })
			p.Await("[role=status]", "bellhop topics set order.paid attempts=7 concurrency=5")
			if got, err := storetest.Inspector(t, s.store).Settings(t.Context(), "order.paid"); err != nil || got.Concurrency != 5 || got.Lease != time.Minute {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
