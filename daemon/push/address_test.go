package push_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// Addresses that are not of the Internet are refused, however they are written.
func TestAddressesAreJudged(t *testing.T) {
	t.Parallel()
	s, e := storetest.Open(t), newEndpoint(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(e.URL, "http://"))
	storetest.Must(t, err)
	p, err := push.New(s, push.Options{Allow: "public"})
	storetest.Must(t, err)
	hosts := []string{
		"127.0.0.1", "127.0.0.2", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "0177.0.0.01", "017700000001", "127.0.0.1.", "127.000.000.001",
		"0", "0.0.0.0", "0x0", "00.0.0.0", "localhost", "LOCALHOST", "localhost.", "%6c%6f%63alhost", "①②⑦.⓪.⓪.①", "127。0。0。1",
		"[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[0000::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]", "[::1%25lo]", "[::ffff:0.0.0.0]",
		"[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1]", "[fc00::1]", "[fd00:ec2::254]", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200",
		"168.63.129.16", "224.0.0.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.2.1",
	}
	for _, host := range hosts {
		for _, scheme := range []string{"http", "https"} {
			one := store.Push{Name: "x", Topics: []string{topic}, URL: scheme + "://" + host + ":" + port + "/", Secrets: []string{secret}, Timeout: store.DefaultPushTimeout}
			if one.Check() != nil {
				continue // no URL
			}
			if _, err := p.Send(t.Context(), &one, subscribers.Delivery{Topic: topic, ID: "a"}); err == nil {
				t.Errorf("%s: it is answered", one.URL)
			} else if strings.Contains(err.Error(), "refused") && !strings.Contains(err.Error(), "BELLHOP_PUSH_ALLOW") {
				t.Errorf("%s: it was dialled: %v", one.URL, err)
			}
		}
	}
	if len(e.got) > 0 {
		t.Errorf("%d requests came", len(e.got))
	}
}

// Each address is judged for itself, whatever the look-up of its name said before.
func TestNetsAreAllowed(t *testing.T) {
	t.Parallel()
	for allow, addresses := range map[string]map[string]string{
		"":                        {"1.1.1.1": "write public", "127.0.0.1": "not public"},
		"public":                  {"1.1.1.1": "", "http 1.1.1.1": "not be encrypted", "2606:4700::1111": "", "10.1.2.3": "not public", "::ffff:10.1.2.3": "not public", "::ffff:0:10.1.2.3": "not public", "fd00::1": "not public"},
		"10.1.0.0/16":             {"10.1.2.3": "", "http 10.1.2.3": "", "::ffff:10.1.2.3": "", "10.2.0.1": "not public", "1.1.1.1": "write public"},
		"public, 127.0.0.1,::1":   {"127.0.0.1": "", "::1": "", "127.0.0.2": "not public", "8.8.8.8": "", "http ::1": ""},
		"fd00::/8,169.254.0.0/16": {"fd00::1": "", "169.254.169.254": "", "fe80::1": "not public"},
	} {
		a, err := push.ParseAllow(allow)
		storetest.Must(t, err)
		for text, want := range addresses {
			host, plain := strings.CutPrefix(text, "http ")
			err := push.CheckAddress(a, netip.MustParseAddr(host), plain)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %s: %v, want %q", allow, text, err, want)
			}
		}
	}
	for _, bad := range []string{"all", "public,", ",", "10.0.0.0/33", "example.com", "10.1", "public 10.0.0.0/8", "::1%lo/128"} {
		if _, err := push.New(storetest.Open(t), push.Options{Allow: bad}); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), "10.1.0.0/16") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

// Why a request failed does not tell where its host leads, nor which server was asked.
func TestLookUpIsNotTold(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for allow, url := range map[string]string{"public": "https://localhost:1/", "127.0.0.1,::1": "http://localhost:1/", "127.0.0.1": "https://nowhere.invalid/"} {
		p, err := push.New(s, push.Options{Allow: allow})
		storetest.Must(t, err)
		one := store.Push{Name: "x", Topics: []string{topic}, URL: url, Secrets: []string{secret}, Timeout: store.DefaultPushTimeout}
		got := p.Test(t.Context(), one)
		if got.OK || !strings.Contains(got.Answer, "localhost:1: ") && !strings.Contains(got.Answer, "nowhere.invalid: ") {
			t.Errorf("%s: %+v", url, got)
		}
		for _, told := range []string{"127.0.0.1", "::1", " on "} {
			if strings.Contains(got.Answer, told) {
				t.Errorf("%s: the answer has %q: %s", url, told, got.Answer)
			}
		}
	}
}

// A pusher that may push nowhere asks Redis nothing.
func TestSwitchedOff(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	s.Observe(func(script string, _ time.Duration, _ error) {
		if script == "pushes" {
			t.Error("the pushes are read")
		}
	})
	p, err := push.New(s, push.Options{})
	storetest.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	storetest.Should(t, p.Run(ctx))
}

// A test of a URL that is not allowed any more does not show its query.
func TestQueryIsHidden(t *testing.T) {
	t.Parallel()
	p, err := push.New(storetest.Open(t), push.Options{Allow: "public"})
	storetest.Must(t, err)
	for _, url := range []string{"http://crm.example/hook?token=7", "https://10.0.0.1/hook?token=7"} {
		got := p.Test(t.Context(), store.Push{Name: "crm", Topics: []string{topic}, URL: url, Secrets: []string{secret}, Timeout: time.Second})
		if got.OK || strings.Contains(got.Answer, "token") {
			t.Errorf("%s: %+v", url, got)
		}
	}
}
