package console_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestLogin(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	v := s.visitor()
	v.get("/ui/topics?sort=name").leads("/ui/login?next=topics%3Fsort%3Dname")
	for _, elsewhere := range []string{"//elsewhere.example", "/elsewhere", "../\\elsewhere.example", "..//elsewhere.example", "https://elsewhere.example/ui/", "../elsewhere", "%2e%2e/elsewhere", "x/../login?elsewhere", "..", "mailto:elsewhere", "https:elsewhere"} {
		v.get("/ui/login?next=" + url.QueryEscape(elsewhere)).is(200).says(`name="next" value="./"`)
	}
	v.get("/ui/login?next=topics").is(200).says(`value="topics"`, `type="password"`).hides("Log out", "<nav")
	v.post("/ui/login", "token", "").is(422).says("it is missing")
	v.post("/ui/login", "token", strings.Repeat("x", 5000)).is(422)
	v.post("/ui/login", "token", `wrong"><script>alert(1)</script>`, "next", `"><script>`).is(401).says("no client has it").hides("<script>alert", `"><script>`)
	if len(v.Jar.Cookies(mustURL(t, s.url+"/ui/"))) != 0 {
		t.Error("a wrong token got a cookie")
	}
	right := v.post("/ui/login", "token", " "+tokens["root"]+"\n", "next", "topics?sort=name").leads("/ui/topics?sort=name")
	if c := right.header.Get("Set-Cookie"); !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "SameSite=Strict") || strings.Contains(c, "Path") ||
		strings.Contains(c, "Secure") || strings.Contains(c, tokens["root"]) {
		t.Errorf("the cookie is %q", c)
	}
	v.get("/ui/").is(200).says("root", "Log out")
	if log := s.log.String(); !strings.Contains(log, "logged in to the console") || !strings.Contains(log, "token=root") || strings.Contains(log, tokens["root"]) {
		t.Errorf("the log is %s", log)
	}
	v.post("/ui/logout").leads("/ui/login")
	v.get("/ui/").leads("/ui/login?next=.%2F")
}

// A login leads nowhere but to a page of the console.
func TestLoginLeadsHome(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	for _, next := range []string{"", "//elsewhere.example/", "https://elsewhere.example/", "/v1/topics", "../v1/topics", "/ui/topics", "..", "login", "logout", "./login", "javascript:alert(1)"} {
		s.visitor().post("/ui/login", "token", tokens["root"], "next", next).leads("/ui/")
	}
	for next, path := range map[string]string{"?span=7d": "/ui/?span=7d", "topics/a?x=b:c": "/ui/topics/a?x=b%3Ac", "x//elsewhere.example": "/ui/x/elsewhere.example", `\\elsewhere.example`: "/ui/%5C%5Celsewhere.example", " //elsewhere.example": "/ui/%20/elsewhere.example"} {
		s.visitor().post("/ui/login", "token", tokens["root"], "next", next).leads(path)
	}
}

// A cookie that is no cookie of this store, or is too old, is none.
func TestForgedCookies(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	s := guarded(t, store)
	v := s.login("root")
	value := v.Jar.Cookies(mustURL(t, s.url+"/ui/"))[0].Value
	name, rest, _ := strings.Cut(value, ".")
	id, rest, _ := strings.Cut(rest, ".")
	until, signature, _ := strings.Cut(rest, ".")
	if name != "root" {
		t.Fatalf("the cookie is %q", value)
	}
	with := func(value string) shown { return s.visitor().get("/ui/", "Cookie: bellhop-login="+value) }
	with(value).is(200)
	for _, forged := range []string{
		"", ".", "..", "...", "....", "root", "root.", "root..", "root...", "root." + id + "." + until + ".", "shop." + id + "." + until + "." + signature, "root." + until + "." + signature,
		"root." + id + ".99999999999." + signature, "root." + id + ".x." + signature, "root.x." + until + "." + signature, "root.." + until + "." + signature, "nobody." + id + "." + until + "." + signature,
		value + "x", "x" + value, value[1:], "root." + id + "." + until + "." + strings.ToUpper(signature), strings.Repeat("root.", 500) + signature,
	} {
		with(forged).is(http.StatusSeeOther)
	}
	key, _, err := store.Home().Secret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	grants := &console.Viewer{Client: &calls.Client{Name: "root"}, Fingerprint: fingerprint(tokens["root"])}
	with(console.Sign([]byte(key), grants, "id", time.Now().Add(time.Hour))).is(200)
	with(console.Sign([]byte(key), grants, "id", time.Now().Add(-time.Second))).is(http.StatusSeeOther)
	other := &console.Viewer{Client: &calls.Client{Name: "root"}, Fingerprint: fingerprint("another-token-012345")}
	with(console.Sign([]byte(key), other, "id", time.Now().Add(time.Hour))).is(http.StatusSeeOther)
	with(console.Sign([]byte(key+"x"), grants, "id", time.Now().Add(time.Hour))).is(http.StatusSeeOther)
}

// What was logged out is refused in all daemons, also as a copy and after a restart, and its pages end. Other logins of the
// token stay.
func TestLogoutEndsCopies(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	path := writeTokens(t, tokensFile)
	one, two := serve(t, store, httpapi.Options{TokensFile: path}), serve(t, store, httpapi.Options{TokensFile: path})
	v, other := one.login("root"), one.login("root")
	copied := v.Jar.Cookies(mustURL(t, one.url+"/ui/"))[0]
	with := func(s *site) shown { return s.visitor().get("/ui/topics", "Cookie: "+copied.String()) }
	with(one).is(200)
	with(two).is(200)
	streams := []*stream{v.stream("/ui/topics"), (&visitor{two, v.Client}).stream("/ui/topics")}
	for _, stream := range streams {
		stream.says("Topic")
	}
	forged := *copied
	forged.Value = "root.forged." + strings.SplitN(copied.Value, ".", 3)[2]
	one.visitor().send(http.MethodPost, "/ui/logout", "", "Cookie: "+forged.String()).leads("/ui/login")
	if n := store.Client().Exists(t.Context(), store.Keys().Logouts()).Val(); n != 0 {
		t.Error("a logout without a login is noted")
	}
	v.post("/ui/logout").leads("/ui/login")
	with(one).leads("/ui/login?next=topics")
	for _, stream := range streams {
		stream.says("You are logged out")
		stream.ends()
	}
	with(two).leads("/ui/login?next=topics")
	with(serve(t, store, httpapi.Options{TokensFile: path})).leads("/ui/login?next=topics")
	other.get("/ui/topics").is(200)
	if ttl := store.Client().PTTL(t.Context(), store.Keys().Logouts()).Val(); ttl < 12*time.Hour || ttl > 14*time.Hour {
		t.Errorf("it is noted for %v", ttl)
	}
	if log := one.log.String(); strings.Count(log, "logged out of the console") != 1 {
		t.Errorf("the log is %s", log)
	}
}

// Who logs out while Redis is away is told what that leaves.
func TestLogoutWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	store := storetest.Unhurried(storetest.At(t, server.URL(), "logout"))
	storetest.Found(t, store)
	v := guarded(t, store).login("root")
	server.Stop()
	got := v.post("/ui/logout").is(http.StatusServiceUnavailable).says("Only this browser is logged out", "A copy of the cookie")
	if c := got.header.Get("Set-Cookie"); !strings.Contains(c, "bellhop-login=;") {
		t.Errorf("the cookie is %q", c)
	}
}

// A token that is taken away ends the pages and streams of its viewers, in all daemons.
func TestTokenIsTakenAway(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	path := writeTokens(t, tokensFile)
	one, two := serve(t, store, httpapi.Options{TokensFile: path}), serve(t, store, httpapi.Options{TokensFile: path})
	v := one.login("root")
	there := &visitor{two, v.Client} // cookies do not tell ports apart
	there.get("/ui/").is(200).says("Log out")
	streams := []*stream{v.stream("/ui/"), there.stream("/ui/")}
	for _, stream := range streams {
		stream.says("Topics")
	}
	changed := strings.ReplaceAll(tokensFile, tokens["root"], "new-token-of-root-01234")
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, s := range []*site{one, two} {
		if err := s.gate.Reload(); err != nil {
			t.Fatal(err)
		}
		streams[i].says("You are logged out")
		streams[i].says("event end")
		streams[i].ends()
		(&visitor{s, v.Client}).get("/ui/").leads("/ui/login?next=.%2F")
	}
	if got := v.stream("/ui/?edition=x"); got.status != http.StatusUnauthorized {
		t.Errorf("a stream answers %d", got.status)
	}
}

// A rotation of the secret ends all cookies and their streams, in all daemons. A new cookie
// of one daemon is good for the other at once.
func TestRotatedSecret(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	path := writeTokens(t, tokensFile)
	one, two := serve(t, store, httpapi.Options{TokensFile: path}), serve(t, store, httpapi.Options{TokensFile: path})
	v := one.login("root")
	there := &visitor{two, v.Client}
	there.get("/ui/").is(200)
	streams := []*stream{v.stream("/ui/"), there.stream("/ui/")}
	if err := store.Home().RotateSecret(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		s.says("You are logged out")
		s.says("event end")
		s.ends()
	}
	v.get("/ui/").leads("/ui/login?next=.%2F")
	there.get("/ui/topics").leads("/ui/login?next=topics")
	again := one.login("root")
	again.get("/ui/").is(200)
	(&visitor{two, again.Client}).get("/ui/").is(200)
}

// Over TLS the cookie is for TLS alone.
func TestCookieOverTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s := serve(t, storetest.Open(t), httpapi.Options{
		TokensFile: writeTokens(t, tokensFile), CertFile: write("cert.pem", "CERTIFICATE", server.Certificate().Raw), KeyFile: write("key.pem", "PRIVATE KEY", key),
	})
	s.url = strings.Replace(s.url, "http:", "https:", 1)
	v := s.visitor()
	v.Transport = server.Client().Transport
	got := v.post("/ui/login", "token", tokens["root"]).is(http.StatusSeeOther)
	if c := got.header.Get("Set-Cookie"); !strings.Contains(c, "; Secure") {
		t.Errorf("the cookie is %q", c)
	}
	v.get("/ui/").is(200)
	if c := v.post("/ui/logout").header.Get("Set-Cookie"); !strings.Contains(c, "; Secure") {
		t.Errorf("the cookie is %q", c)
	}
}

func TestOpenConsole(t *testing.T) {
	t.Parallel()
	v := open(t).visitor()
	v.get("/ui/").is(200).says("v1.2.3").hides("Log out")
	v.get("/", "Accept: text/html,*/*").is(http.StatusFound)
	v.get("/ui").is(http.StatusTemporaryRedirect)
	if got := v.get("/").is(404); !strings.Contains(got.header.Get("Content-Type"), "json") {
		t.Errorf("a program gets %q", got.header.Get("Content-Type"))
	}
	v.get("/ui/nothing").is(404).says("there is no such page", "<nav")
	v.get("/ui/assets/").is(404)
	v.get("/ui/assets/nothing.js").is(404)
	v.get("/ui/", "Host: elsewhere.example").is(200) // the header does not set the name of a host
}

// Every page refuses what it does not need, and is kept nowhere.
func TestHeadersOfPages(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	v := s.login("root")
	for _, path := range append(addresses(t), "/ui/login", "/ui/nothing") {
		got := v.get(path)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		} {
			if got.header.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, got.header.Get(name))
			}
		}
		for _, tag := range []string{"<style", "style=", "javascript:", "onclick=", "<script>", `src="http`, `href="http`, `action="http`} {
			got.hides(tag)
		}
	}
	edition := v.get("/ui/").field(assetEdition)
	if got := v.get("/ui/assets/style.css?e=" + edition).is(200).header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
		t.Errorf("a file of this edition is kept as %q", got)
	}
	if got := v.get("/ui/assets/style.css?e=other").is(200).header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("a file of another edition is kept as %q", got)
	}
}

// A page of another origin can do nothing in the name of a viewer.
func TestForeignOrigins(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]httpapi.Options{"none permitted": {}, "all permitted": {CORSOrigins: []string{"*"}}, "that one permitted": {CORSOrigins: []string{"https://elsewhere.example"}}} {
		v := serve(t, storetest.Open(t), o).visitor()
		edition := v.get("/ui/").field(assetEdition)
		form := "edition=" + edition + "&once=" + strings.ReplaceAll(name, " ", "")
		for _, header := range []string{"Origin: https://elsewhere.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"} {
			got := v.send("POST", "/ui/test/act", form, "Content-Type: application/x-www-form-urlencoded", header)
			if got.status != http.StatusForbidden {
				t.Errorf("%s: %s: got %d %s", name, header, got.status, got.body)
			}
		}
	}
}

func TestNoConsole(t *testing.T) {
	t.Parallel()
	gate, err := httpapi.New(storetest.Open(t), httpapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, func(ctx context.Context) error { return gate.Run(ctx, l) })
	v := (&site{t: t, gate: gate, url: "http://" + l.Addr().String()}).visitor()
	for _, path := range []string{"/", "/ui", "/ui/", "/ui/login", "/ui/assets/style.css"} {
		if got := v.get(path, "Accept: text/html").is(404); !strings.Contains(got.header.Get("Content-Type"), "json") {
			t.Errorf("%s: a %s", path, got.header.Get("Content-Type"))
		}
	}
}

// A form does what it says once, and what it did is told on the page that it names.
func TestForms(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	v := s.login("shop")
	edition := v.get("/ui/").field(assetEdition)
	const path = "/ui/test/act"
	v.post(path, "edition", edition, "once", "forms-1", "back", "topics?sort=name").did("Done <i>once</i>", "/ui/topics?sort=name")
	v.get("/ui/").is(200).says("Done &lt;i&gt;once&lt;/i&gt;").hides("<i>")
	v.get("/ui/").is(200).hides("once&lt;")
	v.get("/ui/?done=Paid").is(200).hides("Paid<")
	v.get("/ui/", "Cookie: bellhop-done=!").is(200)
	forged := base64.RawURLEncoding.EncodeToString([]byte("Paid 1,000 times"))
	v.get("/ui/", "Cookie: bellhop-done="+forged).is(200).hides("Paid")
	v.post(path, "edition", edition, "once", "forms-1").is(409).says("This form was sent before")
	v.post(path, "edition", "other", "once", "forms-2").is(409).says("The daemon was updated")
	v.post(path, "edition", edition).is(409)
	v.post(path, "edition", edition, "once", strings.Repeat("x", 200)).is(409)
	v.post(path, "edition", edition, "once", "forms-3", "refuse", "forbidden").is(403).says("Not permitted")
	v.post(path, "edition", edition, "once", "forms-4", "refuse", "failed").is(500).says("log says why").hides("it&lt;")
	s.login("root").post(path, "edition", edition, "once", "forms-8", "refuse", "failed").is(500).says("&lt;b&gt;it&lt;/b&gt; failed")
	v.post(path, "edition", edition, "once", "forms-5", "back", "https://elsewhere.example/").did("Done <i>once</i>", "/ui/")
	v.post(path, "edition", edition, "once", "forms-6", "filler", strings.Repeat("x", 6<<20)).is(413).says("That form is too large", "Nothing was done")
	s.visitor().post(path, "edition", edition, "once", "forms-7", "back", "topics?sort=name").leads("/ui/login?next=topics%3Fsort%3Dname")
	s.visitor().post(path, "edition", edition, "once", "forms-8", "back", "//elsewhere.example/ui/").leads("/ui/login?next=.%2F")
	if log := s.log.String(); strings.Count(log, "act of the console") != 2 || !strings.Contains(log, "token=shop") || !strings.Contains(log, "act=test") {
		t.Errorf("the log is %s", log)
	}
}

// A stream of a page of the version before ends, and says what to do.
func TestStreamOfAnotherEdition(t *testing.T) {
	t.Parallel()
	stream := open(t).visitor().stream("/ui/?edition=other")
	stream.says("The daemon was updated")
	stream.says("event end")
	stream.ends()
}

// A stop ends streams, and does not wait for those who read them.
func TestStopEndsStreams(t *testing.T) {
	t.Parallel()
	s := open(t)
	stream := s.visitor().stream("/ui/")
	stream.says("Topics")
	ctx, cancel := context.WithTimeout(t.Context(), storetest.Deadline)
	defer cancel()
	s.gate.Quiesce(ctx)
	if ctx.Err() != nil {
		t.Error("the stop took too long")
	}
	stream.ends()
	if n := s.gate.Stats().Viewers; n != 0 {
		t.Errorf("%d viewers are left", n)
	}
}

// Each token has its own limit of pages that are open.
func TestMostPages(t *testing.T) {
	t.Parallel()
	s := serve(t, storetest.Open(t), httpapi.Options{TokensFile: writeTokens(t, tokensFile), MaxStreams: 2})
	root, shop := s.login("root"), s.login("shop")
	first := root.stream("/ui/")
	root.stream("/ui/").says("Topics")
	if third := root.stream("/ui/"); third.status != http.StatusTooManyRequests || third.body.Header.Get("Retry-After") == "" {
		t.Errorf("a third page got %d", third.status)
	}
	shop.stream("/ui/").says("Topics")
	first.close()
	storetest.Eventually(t, "it is gone", func() bool { return s.gate.Stats().Viewers == 2 })
	root.stream("/ui/").says("Topics")
}

// A viewer who reads nothing is cut off when his time is over, and nobody waits for him.
func TestSlowViewer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const patience = 3 * time.Second
		store, err := notify.Open(notify.Config{URL: "unix://" + t.TempDir() + "/none"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			store.Close()
			time.Sleep(2 * time.Second) // of the bubble's clock: its client looks each second whether it was closed
		}()
		pages, err := console.New(serviceOf(t, store), console.Options{Logger: discard, Open: anybody(), Closing: t.Context(), Patience: patience, MaxPages: 10})
		if err != nil {
			t.Fatal(err)
		}
		login := httptest.NewRecorder()
		pages.ServeHTTP(login, httptest.NewRequest(http.MethodGet, "/ui/login", nil))
		look := func(ctx context.Context, theirs net.Conn) {
			defer theirs.Close()
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/ui/test/bulk?edition="+assetEdition.FindStringSubmatch(login.Body.String())[1], nil)
			r.Header.Set("Accept", "text/event-stream")
			pages.ServeHTTP(&piped{theirs, http.Header{}}, r)
		}
		ours, theirs := net.Pipe()
		var got atomic.Int64
		go func() {
			for buffer := make([]byte, 64<<10); ; {
				n, err := ours.Read(buffer)
				if got.Add(int64(n)); err != nil {
					return
				}
			}
		}()
		ctx, leave := context.WithCancel(t.Context())
		go look(ctx, theirs)
		silent, nobody := net.Pipe()
		defer silent.Close()
		began := time.Now()
		look(t.Context(), nobody)
		if took := time.Since(began); took != patience {
			t.Errorf("the slow one is cut off after %v", took)
		}
		synctest.Wait()
		if n := got.Load() / console.BulkBytes; n < 3 || pages.Viewers() != 1 {
			t.Errorf("the other one got %d pieces meanwhile, and %d are there", n, pages.Viewers())
		}
		leave()
	})
}

// A piped is an answer that is written into a connection as it is.
type piped struct {
	net.Conn
	header http.Header
}

func (p *piped) Header() http.Header { return p.header }
func (p *piped) WriteHeader(int)     {}
func (p *piped) Flush()              {}

// While Redis is away a page says so, and comes back by itself.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	store := storetest.Unhurried(storetest.At(t, server.URL(), "away"))
	storetest.Found(t, store)
	s := serve(t, store, httpapi.Options{})
	p := s.browse("/ui/", consoletest.Look{})
	p.Streams()
	server.Stop()
	p.Await("#lost", "Redis cannot be reached")
	s.visitor().get("/ui/").is(http.StatusServiceUnavailable).says("Redis cannot be reached", "tries again by itself")
	if _, err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Until("no fault is left", "!document.querySelector('.fault:not([hidden])') && document.querySelector('#live').innerText.includes('Topics')")
}

// A page goes on when its daemon was restarted, and says meanwhile that it shows the past.
func TestDaemonRestarts(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	s := serve(t, store, httpapi.Options{})
	p := s.browse("/ui/", consoletest.Look{})
	tolerate(p)
	p.Streams()
	s.stop()
	p.Await("#lost", "The daemon does not answer. This page shows what was at ")
	serveAt(t, store, httpapi.Options{}, s.port)
	p.Until("the page goes on", "document.getElementById('lost').hidden")
}

// A page that nobody looks at has no stream.
func TestBackground(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.browse("/ui/", consoletest.Look{})
	seen := func(n int64) {
		t.Helper()
		storetest.Eventually(t, "viewers are counted", func() bool { return s.gate.Stats().Viewers == n })
	}
	seen(1)
	p.Streams()
	p.Show(false)
	seen(0)
	p.Show(true)
	seen(1)
}

// What a browser refuses because of the policy fails a test.
func TestComplaintsAreHeard(t *testing.T) {
	t.Parallel()
	p := open(t).browse("/ui/", consoletest.Look{})
	p.Eval("document.body.setAttribute('style', 'color: red')", nil)
	storetest.Eventually(t, "the browser complains", func() bool { return len(p.Complaints()) > 0 })
	p.Expect("Content Security Policy")
	if rest := p.Complaints(); len(rest) > 0 {
		t.Errorf("it complains of more: %q", rest)
	}
}

// Fifty viewers cost Redis as much as one, and none costs nothing.
func TestSnapshotsAreShared(t *testing.T) {
	t.Parallel()
	const viewers = 50
	var calls scriptCalls
	store := storetest.At(t, storetest.URL(), "shared-"+t.Name())
	store.Observe(calls.observe)
	storetest.Found(t, store)
	s := serve(t, store, httpapi.Options{})
	v := s.visitor()
	began := time.Now()
	var open []*stream
	for range viewers {
		one := v.stream("/ui/")
		one.says("Topics")
		open = append(open, one)
	}
	storetest.Eventually(t, "all are there", func() bool { return s.gate.Stats().Viewers == viewers })
	storetest.Eventually(t, "there were some snapshots", func() bool { return calls.of("joined") >= 4*int64(storetest.Shards()) })
	snapshots, looks := int64(time.Since(began)/(4900*time.Millisecond))+1, int64(time.Since(began)/(10*time.Second))+1 // of the doctor
	if n, most := calls.of("joined"), int64(storetest.Shards())*(snapshots+looks); n > most {
		t.Errorf("%d snapshots within %v", n, time.Since(began))
	}
	t.Logf("%d viewers: calls %v within %v", viewers, calls.all(), time.Since(began))
	for _, one := range open {
		one.close()
	}
	storetest.Eventually(t, "all have left", func() bool { return s.gate.Stats().Viewers == 0 })
	storetest.Eventually(t, "there are no snapshots without a viewer", func() bool { // one may be under way
		last := calls.of("joined")
		return !storetest.Poll(50*time.Millisecond, 7*time.Second, func() bool { return calls.of("joined") > last })
	})
}
