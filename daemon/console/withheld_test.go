package console_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Who does not see the whole store is told that something is away or refused, and not the
// names of servers, users and rights: those are logged.
func TestErrorsOfRedisAreWithheld(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	own := storetest.Unhurried(storetest.At(t, server.URL(), "withheld"))
	storetest.Found(t, own)
	acl := func(rules ...any) {
		t.Helper()
		if err := own.Client().Do(t.Context(), append([]any{"ACL", "SETUSER", "insider"}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	acl("on", ">secret", "~*", "&*", "+@all")
	s := serve(t, storetest.Unhurried(storetest.At(t, strings.Replace(server.URL(), "//", "//insider:secret@", 1), "withheld")), httpapi.Options{TokensFile: writeTokens(t, tokensFile)})
	root, shop := s.login("root"), s.login("shop")
	bury(t, own, "order.a", "why", "1")
	stranger := &visitor{s, http.Client{CheckRedirect: shop.CheckRedirect}}
	inside := []string{server.Addr(), "insider", "NOPERM", "zcard", "dial tcp", "connection refused", "ACL"}
	// failed waits until a page has no answer for a reason: what was read before is kept for some seconds.
	failed := func(v *visitor, path, reason string) (got shown) {
		storetest.Eventually(t, path+" fails", func() bool {
			got = v.get(path)
			return got.status >= http.StatusInternalServerError && strings.Contains(got.body, reason)
		})
		return got
	}
	paths := []string{"/ui/", "/ui/topics", "/ui/topics/order.a", "/ui/topics/order.a/messages/1", "/ui/dead", "/ui/dead/letters?topic=order.a", "/ui/find?q=state:dead"}

	acl("-@sortedset")
	for _, path := range paths {
		failed(shop, path, "").says("The daemon&#39;s log says why.").hides(inside...)
	}
	failed(root, "/ui/dead", "").says("insider", server.Addr()).hides("log says why")
	if log := s.log.String(); !strings.Contains(log, "withheld an error") || !strings.Contains(log, "insider") {
		t.Errorf("the log does not say it: %s", log)
	}
	acl("+@all")

	server.Stop()
	for _, path := range paths {
		failed(shop, path, "Redis cannot be reached").is(http.StatusServiceUnavailable).says("The daemon&#39;s log says why.").hides(inside...)
	}
	failed(root, "/ui/", "Redis cannot be reached").is(http.StatusServiceUnavailable).says(server.Addr())
	stream := shop.stream("/ui/topics?edition=" + shop.get("/ui/login").field(assetEdition))
	if piece := stream.says("Redis cannot be reached"); strings.Contains(piece, server.Addr()) {
		t.Errorf("a stream says %s", piece)
	}
	again := serve(t, storetest.Unhurried(storetest.At(t, server.URL(), "withheld")), httpapi.Options{TokensFile: writeTokens(t, tokensFile)}) // it does not know the secret of cookies yet
	stranger.site = again
	stranger.post("/ui/login", "token", tokens["shop"]).is(http.StatusServiceUnavailable).says("Redis cannot be reached").hides(inside...)
	(&visitor{again, shop.Client}).get("/ui/").is(http.StatusServiceUnavailable).says("Redis cannot be reached").hides(inside...)
	stranger.CloseIdleConnections()
}

// A shard that is away is named, and where it would be is not.
func TestErrorsOfAShardAreWithheld(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.ShardAway(t, 8, 3))
	shop, root := s.login("shop"), s.login("root")
	for _, path := range []string{"/ui/", "/ui/topics", "/ui/dead", "/ui/carriers", "/ui/broadcasts"} {
		shop.get(path).is(http.StatusOK).says("Shard 3 is missing", "What the others hold is shown.").hides("dial", "refused", "127.0.0.1", "ERR")
	}
	root.get("/ui/").is(http.StatusOK).says("Shard 3 is missing").hides("log says why")
}

// An error of connections is logged once, though each connection has a port of its own.
func TestWithheldOnce(t *testing.T) {
	t.Parallel()
	var log journal
	c, err := console.New(serviceOf(t, storetest.Open(t)), console.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Closing: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	for port := range 3 {
		for _, to := range []string{"10.0.0.7:6379", "10.0.0.8:6379"} {
			c.Withhold(fmt.Errorf("survey: read tcp 10.0.0.1:%d->%s: i/o timeout", 40000+port, to))
		}
	}
	if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 2 || !strings.Contains(lines[1], "10.0.0.8:6379") {
		t.Errorf("logged %q", lines)
	}
}
