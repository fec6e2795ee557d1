package reach_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// A connection that is abandoned while it is made, because there is another master, fails with an error that is worth a retry.
func TestAbandonedWhileConnecting(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := storetest.At(t, "redis://"+listener.Addr().String(), "")
	ended := make(chan error, 1)
	go func() { ended <- s.Check(t.Context()) }()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
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
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".lua" {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		source = sharded.ReplaceAll(source, nil) // such a store needs other rights
		for _, found := range direct.FindAllStringSubmatch(string(source), -1) {
			command := strings.ToLower(found[1])
			if command == "xinfo" || command == "pubsub" {
				command += "|" + strings.ToLower(found[2])
			}
			used[command] = true
			if !slices.Contains(rehearsed, command) {
				t.Errorf("%s calls %s, which is not rehearsed", path, command)
			}
		}
		for _, found := range quoted.FindAllStringSubmatch(string(source), -1) {
			named[strings.ToLower(found[1])] = true // it may be called by a variable
		}
		return nil
	})
	if err != nil || len(used) < 20 {
		t.Fatalf("scripts call %d commands, %v", len(used), err)
	}
	for _, command := range rehearsed {
		if !used[command] && !named[command] {
			t.Errorf("%s is rehearsed, and no script calls it", command)
		}
	}
}
