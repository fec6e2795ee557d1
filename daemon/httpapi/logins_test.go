package httpapi_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Requests without a known token are all counted, and logged once, without the token they sent.
func TestRefusedLogins(t *testing.T) {
	t.Parallel()
	var log storetest.Log
	tokens := file(t, "tokens", "one "+slowToken+" admin >\n")
	h := serve(t, storetest.Open(t), httpapi.Options{TokensFile: tokens, Logger: log.Logger(slog.LevelInfo)}, httpapi.Timing{})
	h.want(clientOf(t, slowToken), http.StatusOK, "GET", "/v1/topics", "")
	for range 20 {
		h.want(clientOf(t, otherToken), http.StatusUnauthorized, "GET", "/v1/topics", "")
		h.want(client(t), http.StatusUnauthorized, "GET", "/v1/openapi.json", "")
	}
	if n := h.Stats().Refused; n != 40 {
		t.Errorf("%d are counted", n)
	}
	if text := log.String(); strings.Count(text, "refused requests") != 1 || !strings.Contains(text, "address=127.0.0.1 requests=1 ") || strings.Contains(text, otherToken) {
		t.Error(text)
	}
}

// An address is logged at most once a minute, and very many addresses as one.
func TestRefusedLoginsAreLoggedSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log storetest.Log
		var l tokens.Logins
		lines := func() int { return strings.Count(log.String(), "\n") }
		refuse := func(client string) { l.Refuse(log.Logger(slog.LevelInfo), client, tokens.ErrUnknown) }
		for range 150 { // seconds
			for range 10 {
				refuse("192.0.2.1:1234")
			}
			time.Sleep(time.Second) // of the bubble's clock
		}
		if n := lines(); n != 3 || strings.Count(log.String(), "requests=600 ") != 2 {
			t.Errorf("%d lines:\n%s", n, &log)
		}
		for i := range 2_000 {
			refuse(fmt.Sprintf("[2001:db8:%x:%x::1]:1", i/256, i%256))
			refuse(fmt.Sprintf("[2001:db8:0:1::%x]:1", i%65536)) // one network
		}
		if n := lines(); n > 3+100+1 || !strings.Contains(log.String(), "address=others") || !strings.Contains(log.String(), "address=2001:db8:0:1::/64") {
			t.Errorf("%d lines:\n%.2000s", n, &log)
		}
		time.Sleep(time.Minute) // of the bubble's clock
		refuse("@")
		if !strings.Contains(log.String(), "address=local requests=1 ") {
			t.Error("after a while a new address is not logged")
		}
	})
}
