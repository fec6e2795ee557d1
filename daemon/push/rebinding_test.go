package push_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// The name of an endpoint, and the address to which alone a push may go; what must not be reached listens beside it.
const (
	renamed   = "hook.example"
	allowed   = "127.0.0.2"
	forbidden = "127.0.0.1"
)

// names is a server of DNS that answers each look-up with the next of its answers, and then with the last one again.
type names struct {
	conn net.PacketConn

	mu      sync.Mutex
	answers [][]string
	asked   int // for addresses of either kind
}

// newNames starts one.
func newNames(t *testing.T) *names {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	storetest.Must(t, err)
	n := &names{conn: conn}
	var all sync.WaitGroup
	all.Go(n.serve)
	t.Cleanup(func() {
		conn.Close()
		all.Wait()
	})
	return n
}

// resolver returns a resolver that asks this server alone.
func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", n.conn.LocalAddr().String())
	}}
}

// says sets the answers.
func (n *names) says(answers ...[]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers, n.asked = answers, 0
}

// Types of records of DNS, see RFC 1035 and 3596.
const (
	typeA    = 1
	typeAAAA = 28
)

// next returns the addresses of a type in the present answer. A look-up asks for both types.
func (n *names) next(kind uint16) (addresses []netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	present := n.answers[min(n.asked/2, len(n.answers)-1)]
	n.asked++
	for _, text := range present {
		if one := netip.MustParseAddr(text); one.Is4() && kind == typeA || one.Is6() && kind == typeAAAA {
			addresses = append(addresses, one)
		}
	}
	return addresses
}

func (n *names) serve() {
	buffer := make([]byte, 4096)
	for {
		size, from, err := n.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = n.conn.WriteTo(n.answer(buffer[:size]), from)
	}
}

// answer returns the answer to a query of one question: its header and question, and a record for each address, which points to the name
// in the question.
func (n *names) answer(query []byte) []byte {
	const header = 12
	end := header + bytes.IndexByte(query[header:], 0) + 1 // of the name
	kind := binary.BigEndian.Uint16(query[end:])
	addresses := n.next(kind)
	answer := bytes.Clone(query[:2])                                               // id
	answer = append(answer, 0x81, 0x80, 0, 1, 0, byte(len(addresses)), 0, 0, 0, 0) // an answer, recursive, without an error
	answer = append(answer, query[header:end+4]...)
	for _, one := range addresses {
		answer = append(answer, 0xc0, header)
		answer = binary.BigEndian.AppendUint16(answer, kind)
		answer = append(answer, 0, 1, 0, 0, 0, 0, 0, byte(one.BitLen()/8)) // Internet, not to be kept
		answer = append(answer, one.AsSlice()...)
	}
	return answer
}

// A name that changes its address, between two requests or between two look-ups, leads to none that is not allowed: what is dialled is judged.
func TestNameThatChanges(t *testing.T) {
	t.Parallel()
	s, n, port := storetest.Open(t), newNames(t), strconv.Itoa(storetest.Port(t))
	good, bad := newEndpointAt(t, net.JoinHostPort(allowed, port)), newEndpointAt(t, net.JoinHostPort(forbidden, port))
	good.says(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }) // so each request is dialled
	p, err := push.New(s, push.Options{Allow: allowed})
	storetest.Must(t, err)
	p.ResolveBy(n.resolver())
	of := store.Push{Name: "x", Topics: []string{topic}, URL: "http://" + net.JoinHostPort(renamed, port) + "/", Secrets: []string{secret}, Timeout: store.DefaultPushTimeout}
	storetest.Must(t, p.Check(&of))
	steps := []struct {
		name    string
		answers [][]string
		arrives bool
	}{
		{"allowed", [][]string{{allowed}}, true},
		{"changed", [][]string{{forbidden}}, false},
		{"changed back", [][]string{{allowed}}, true},
		{"allowed at the first look-up", [][]string{{allowed}, {forbidden}}, true},
		{"and changed at the next", [][]string{{forbidden}, {allowed}}, false},
		{"of both the one that is allowed", [][]string{{forbidden, allowed}}, true},
		{"mapped to IPv6", [][]string{{"::ffff:" + forbidden}}, false},
		{"a loopback of IPv6", [][]string{{"::1"}}, false},
		{"metadata", [][]string{{"169.254.169.254"}}, false},
		{"any address of this machine", [][]string{{"0.0.0.0", "::"}}, false},
	}
	for _, step := range steps {
		n.says(step.answers...)
		a, err := p.Send(t.Context(), &of, subscribers.Delivery{Topic: topic, ID: "a"})
		switch {
		case step.arrives && (err != nil || !a.IsDone()):
			t.Errorf("%s: got %v, %v", step.name, a, err)
		case !step.arrives && (err == nil || !strings.Contains(err.Error(), "BELLHOP_PUSH_ALLOW")):
			t.Errorf("%s: got %v, %v, want an address that is refused", step.name, a, err)
		}
	}
	if len(good.got) != 4 || len(bad.got) > 0 {
		t.Errorf("%d requests came to the address that is allowed, %d to the other one", len(good.got), len(bad.got))
	}
}
