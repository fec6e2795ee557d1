package reach_test

import (
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// A connection that is abandoned while it is made, because there is another master, fails with an error that is worth a retry.
func TestAbandonedWhileConnecting(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	defer listener.Close()
	s := storetest.At(t, "redis://"+listener.Addr().String(), "")
	ended := make(chan error, 1)
	go func() { ended <- s.Check(t.Context()) }()
	conn, err := listener.Accept()
	storetest.Must(t, err)
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil { // it was asked, and answers nothing
		t.Fatal(err)
	}
	s.Abandon()
	if err := storetest.Receive(t, "the call ends", ended); !reach.Retryable(err) {
		t.Errorf("%v; want that Redis is away", err)
	}
}

// Exactly the commands that scripts call are rehearsed.
func TestScriptsCallWhatIsRehearsed(t *testing.T) {
	direct := regexp.MustCompile(`\b(?:call|try|pcall)\('([A-Z]+)'(?:, '([A-Z]+)')?`)
	sharded := regexp.MustCompile(`SHARDED and '[A-Z]+' or |call\('PUBSUB', 'SHARDNUMSUB'.*`)
	quoted := regexp.MustCompile(`'([A-Z]{3,})'`)
	used, named := make(map[string]bool), make(map[string]bool)
	rehearsed := reach.Rehearsed()
	for _, source := range []string{script.LibraryText(), script.Source("found"), script.Source("rehearse")} {
		source = sharded.ReplaceAllString(source, "") // such a store needs other rights
		for _, found := range direct.FindAllStringSubmatch(source, -1) {
			command := strings.ToLower(found[1])
			if command == "xinfo" || command == "pubsub" {
				command += "|" + strings.ToLower(found[2])
			}
			used[command] = true
			if !slices.Contains(rehearsed, command) {
				t.Errorf("%s is called, and is not rehearsed", found[0])
			}
		}
		for _, found := range quoted.FindAllStringSubmatch(source, -1) {
			named[strings.ToLower(found[1])] = true // it may be called by a variable
		}
	}
	if len(used) < 20 {
		t.Fatalf("scripts call %d commands", len(used))
	}
	for _, command := range rehearsed {
		if !used[command] && !named[command] {
			t.Errorf("%s is rehearsed, and no script calls it", command)
		}
	}
}
