package consoletest

import (
	"cmp"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// A Look is how a page is looked at. The zero value is light, 1,400 px wide, with JavaScript.
type Look struct {
	Width    int     // in px; zero: 1,400
	Height   int     // px of what is seen of a page at once; zero: 900
	Scale    float64 // pixels of the screen for each px, across and down; zero: 1
	Dark     bool
	NoScript bool // JavaScript is switched off
}

// A Page is a tab of a browser, with cookies of its own. Its methods fail the test if
// something is not there within storetest.Deadline.
type Page struct {
	t       testing.TB
	browser *browser
	context string // of the browser, with its cookies
	session string
	plain   bool   // without JavaScript
	at      string // the address that it went to last

	mu         sync.Mutex
	complaints []string
	expected   []string
	requests   []string
}

// Open opens a page at an address, and waits until it is loaded.
func Open(t testing.TB, url string, look Look) *Page {
	t.Helper()
	b := share(t)
	var made struct{ BrowserContextID string }
	if err := b.call("", "Target.createBrowserContext", nil, &made); err != nil {
		t.Fatal(err)
	}
	return openIn(t, b, made.BrowserContextID, url, look)
}

// Another opens another window at an address, with the cookies of this one, and waits until it is loaded.
func (p *Page) Another(url string) *Page {
	p.t.Helper()
	return openIn(p.t, p.browser, p.context, url, Look{})
}

// openIn opens a window in a context of the browser.
func openIn(t testing.TB, b *browser, context, url string, look Look) *Page {
	t.Helper()
	p := &Page{t: t, browser: b, context: context, expected: []string{"htmx:error: timeout"}} // of a stream that a busy machine does not begin in time: the page asks again
	var made struct{ TargetID, SessionID string }
	t.Cleanup(p.close)
	p.must(p.browser.call("", "Target.createTarget", object{"url": "about:blank", "browserContextId": p.context, "newWindow": true}, &made))
	p.must(p.browser.call("", "Target.attachToTarget", object{"targetId": made.TargetID, "flatten": true}, &made))
	p.session = made.SessionID
	p.browser.hear(p.session, p.hear)
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "DOM"} {
		p.call(domain+".enable", nil, nil)
	}
	p.call("Emulation.setFocusEmulationEnabled", object{"enabled": true}, nil) // other pages do not bring it to the background
	p.Look(look)
	p.Go(url)
	return p
}

type object = map[string]any

func (p *Page) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *Page) call(method string, params, result any) {
	p.t.Helper()
	p.must(p.browser.call(p.session, method, params, result))
}

// close closes the page, and fails the test for what the browser complained of.
func (p *Page) close() {
	p.browser.hear(p.session, nil)
	_ = p.browser.call("", "Target.disposeBrowserContext", object{"browserContextId": p.context}, nil) // the browser may have ended
	for _, complaint := range p.Complaints() {
		p.t.Errorf("the browser complains: %s", complaint)
	}
}

// Complaints returns what the browser complained of so far, but for what was expected.
func (p *Page) Complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.complaints), func(text string) bool {
		return slices.ContainsFunc(p.expected, func(part string) bool { return strings.Contains(text, part) })
	})
}

// Expect takes complaints with a part of text for granted.
func (p *Page) Expect(part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, part)
}

// Requests returns the addresses that the page asked for so far.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// hear notes what the page tells of itself.
func (p *Page) hear(e event) {
	var told struct {
		Entry            struct{ Level, Source, Text, URL string }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
		Type    string
		Args    []struct{ Value, Description any }
		Request struct{ URL string }
	}
	if json.Unmarshal(e.Params, &told) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.Method == "Network.requestWillBeSent":
		p.requests = append(p.requests, told.Request.URL)
	case e.Method == "Log.entryAdded" && (told.Entry.Level == "error" || told.Entry.Source == "security"):
		p.complaints = append(p.complaints, fmt.Sprintf("%s %s (%s)", told.Entry.Source, told.Entry.Text, told.Entry.URL))
	case e.Method == "Runtime.exceptionThrown":
		p.complaints = append(p.complaints, told.ExceptionDetails.Text+" "+told.ExceptionDetails.Exception.Description)
	case e.Method == "Runtime.consoleAPICalled" && (told.Type == "error" || told.Type == "warning"):
		p.complaints = append(p.complaints, fmt.Sprintf("console.%s %v", told.Type, told.Args))
	}
}

// Look looks at the page in another way. NoScript holds from the next load on.
func (p *Page) Look(look Look) {
	p.t.Helper()
	look.Width, look.Height, look.Scale = cmp.Or(look.Width, 1400), cmp.Or(look.Height, 900), cmp.Or(look.Scale, 1)
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	p.call("Emulation.setDeviceMetricsOverride", object{"width": look.Width, "height": look.Height, "deviceScaleFactor": look.Scale, "mobile": false}, nil)
	p.call("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
	p.plain = look.NoScript
	p.call("Emulation.setScriptExecutionDisabled", object{"value": p.plain}, nil)
}

// Go goes to an address, and waits until the page is loaded.
func (p *Page) Go(url string) {
	p.t.Helper()
	p.at = url
	var gone struct{ ErrorText string }
	p.Loads(func() { p.call("Page.navigate", object{"url": url}, &gone) })
	if gone.ErrorText != "" {
		p.t.Fatalf("%s: %s", url, gone.ErrorText)
	}
}

// Loads waits until another page is loaded, which a function leads to.
func (p *Page) Loads(f func()) {
	p.t.Helper()
	p.Eval("window.before = true", nil)
	f()
	p.Until("another page is loaded", "!window.before && document.readyState === 'complete'")
}

// Eval runs JavaScript in the page, and reads what it returns; a promise is awaited.
func (p *Page) Eval(script string, result any) {
	p.t.Helper()
	p.must(p.eval(script, result))
}

func (p *Page) eval(script string, result any) error {
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := p.browser.call(p.session, "Runtime.evaluate", object{"expression": script, "awaitPromise": true, "returnByValue": true}, &got)
	switch {
	case err != nil:
		return err
	case got.ExceptionDetails != nil:
		return fmt.Errorf("%s %s in %.300s", got.ExceptionDetails.Text, got.ExceptionDetails.Exception.Description, script)
	case result == nil || len(got.Result.Value) == 0:
		return nil
	}
	return json.Unmarshal(got.Result.Value, result)
}

// Streams waits until the live part of the page is connected to its stream.
func (p *Page) Streams() {
	p.t.Helper()
	p.Until("the page has its stream", "document.getElementById('live')?._htmx?.sse?.reader")
}

// Until waits until JavaScript returns something true. Meanwhile another page may load.
func (p *Page) Until(what, script string) {
	p.t.Helper()
	if !storetest.Poll(20*time.Millisecond, storetest.Deadline, func() bool { // asked all the time, the browser does little else
		var is bool
		return p.eval("!!("+script+")", &is) == nil && is
	}) {
		p.t.Fatalf("waited %v for this: %s", storetest.Deadline, what)
	}
}

// Await waits until the first element of a selector has a text.
func (p *Page) Await(selector, text string) {
	p.t.Helper()
	defer func() {
		if p.t.Failed() {
			var all string
			_ = p.eval("document.body.innerText", &all)
			p.t.Logf("the page shows:\n%s", all)
		}
	}()
	p.Until(fmt.Sprintf("%s says %q", selector, text), fmt.Sprintf("document.querySelector(%s)?.innerText.includes(%s)", Quoted(selector), Quoted(text)))
}

// Text returns the text of the first element of a selector, once that is there.
func (p *Page) Text(selector string) (text string) {
	p.t.Helper()
	p.Until(selector+" is there", "document.querySelector("+Quoted(selector)+")")
	p.Eval("document.querySelector("+Quoted(selector)+").innerText", &text)
	return text
}

// Count returns how many elements a selector has now.
func (p *Page) Count(selector string) (n int) {
	p.t.Helper()
	p.Eval("document.querySelectorAll("+Quoted(selector)+").length", &n)
	return n
}

// Click clicks with the mouse on the first element of a selector, once that is there.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.Until(selector+" is there", "document.querySelector("+Quoted(selector)+")")
	var at struct{ X, Y float64 }
	p.Eval(`(() => {
		const e = document.querySelector(`+Quoted(selector)+`);
		e.scrollIntoView({ block: "center" });
		const r = e.getClientRects()[0];
		return { x: r.x + r.width / 2, y: r.y + r.height / 2 };
	})()`, &at)
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		p.call("Input.dispatchMouseEvent", object{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil)
	}
}

// Type puts the cursor into the first element of a selector, and types a text in place of
// what it has.
func (p *Page) Type(selector, text string) {
	p.t.Helper()
	p.Click(selector)
	p.Eval("document.querySelector("+Quoted(selector)+").select()", nil)
	p.call("Input.insertText", object{"text": text}, nil)
}

// Press presses a key, such as Tab or Enter.
func (p *Page) Press(key string) {
	p.t.Helper()
	stroke := map[string]object{
		"Tab":       {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9},
		"Enter":     {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
		"Escape":    {"key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27},
		"ArrowUp":   {"key": "ArrowUp", "code": "ArrowUp", "windowsVirtualKeyCode": 38},
		"ArrowDown": {"key": "ArrowDown", "code": "ArrowDown", "windowsVirtualKeyCode": 40},
	}[key]
	for _, kind := range []string{"keyDown", "keyUp"} {
		stroke["type"] = kind
		p.call("Input.dispatchKeyEvent", stroke, nil)
	}
}

// Show brings the page to the background, or back.
func (p *Page) Show(shown bool) {
	p.t.Helper()
	p.Eval(fmt.Sprintf(`(() => {
		Object.defineProperty(document, "hidden", { configurable: true, get: () => %t });
		document.dispatchEvent(new Event("visibilitychange"));
	})()`, !shown), nil)
}

// Screenshot writes a picture of the whole page, as PNG.
func (p *Page) Screenshot(file string) {
	p.t.Helper()
	var size struct {
		CSSContentSize struct{ Width, Height float64 }
	}
	p.call("Page.getLayoutMetrics", nil, &size)
	var got struct{ Data string }
	p.call("Page.captureScreenshot", object{"format": "png", "captureBeyondViewport": true, "clip": object{
		"x": 0, "y": 0, "width": size.CSSContentSize.Width, "height": size.CSSContentSize.Height, "scale": 1,
	}}, &got)
	data, err := base64.StdEncoding.DecodeString(got.Data)
	p.must(err)
	p.must(os.MkdirAll(filepath.Dir(file), 0o755))
	p.must(os.WriteFile(file, data, 0o644))
}

//go:embed testdata/axe.min.js
var axe string

// Axe fails the test for what axe-core finds: what keeps people out who do not see the page,
// or do not use a mouse.
func (p *Page) Axe() {
	p.t.Helper()
	p.call("Emulation.setScriptExecutionDisabled", object{"value": false}, nil) // else its promises never end; the page's own scripts were not loaded
	defer p.call("Emulation.setScriptExecutionDisabled", object{"value": p.plain}, nil)
	p.Eval(axe+"; undefined", nil)
	var found []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	p.Eval("axe.run().then((r) => r.violations)", &found)
	for _, f := range found {
		for _, n := range f.Nodes {
			p.t.Errorf("axe: %s: %s (%s): %s: %s: %s", p.at, f.ID, f.Impact, f.Help, n.HTML, n.FailureSummary)
		}
	}
}

// Fits fails the test if the page is wider than the window.
func (p *Page) Fits() {
	p.t.Helper()
	var wide struct{ Page, Window int }
	p.Eval("({ page: document.documentElement.scrollWidth, window: window.innerWidth })", &wide)
	if wide.Page > wide.Window {
		p.t.Errorf("%s is %d px wide, and the window %d", p.at, wide.Page, wide.Window)
	}
}

// Quoted returns a text as JavaScript writes it.
func Quoted(text string) string {
	data, _ := json.Marshal(text) // of a string that cannot fail
	return string(data)
}
