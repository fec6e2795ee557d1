package main

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/pagestest"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const outboxPage = "../../daemon/outbox/README.md"

// An orderBook is the database of the page, in which roles publish and relay.
type orderBook struct{ admin, app, relay string }

// openOrderBook makes the database, with the roles that the page names.
func openOrderBook(t *testing.T) orderBook {
	t.Helper()
	_, root := databasetest.Server(t)
	u, err := url.Parse(root)
	storetest.Must(t, err)
	password, _ := u.User.Password()
	of := func(role string) string {
		u.User = url.UserPassword(role, password)
		return u.String()
	}
	databasetest.Exec(t, root, "CREATE ROLE app LOGIN PASSWORD '"+password+"'; CREATE ROLE relay LOGIN PASSWORD '"+password+"'")
	databasetest.Exec(t, root, "CREATE TABLE orders (id int, account int, total int); GRANT SELECT, INSERT ON orders TO app")
	return orderBook{admin: root, app: of("app"), relay: of("relay")}
}

// line returns a line of the page with the addresses of this database, for a shell that has its password. The role bellhop is
// its administrator, so another one relays.
func (d orderBook) line(text string) string {
	for role, at := range map[string]string{"admin": d.admin, "bellhop": d.relay} {
		u, _ := url.Parse(at) // as openOrderBook made it
		u.User = url.User(u.User.Username())
		text = strings.ReplaceAll(text, "postgres://"+role+"@db1/shop", "'"+u.String()+"'")
	}
	return strings.ReplaceAll(text, "--relay bellhop", "--relay relay")
}

func (d orderBook) password() string {
	u, _ := url.Parse(d.admin) // as openOrderBook made it
	password, _ := u.User.Password()
	return password
}

var (
	sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")
	ofDriver = regexp.MustCompile(`"(SELECT bellhop\.publish[^"]*)"`)
)

// sqlOf returns the SQL of a section.
func sqlOf(t *testing.T, section string) string {
	t.Helper()
	found := sqlBlock.FindStringSubmatch(pagestest.Section(t, outboxPage, section))
	if found == nil {
		t.Fatalf("the section %s has no SQL", section)
	}
	return found[1]
}

// The page installs an outbox, and publishes what the roles may; a daemon relays it, what was refused when it is retried.
func TestPageOfTheOutbox(t *testing.T) {
	t.Parallel()
	d := openOrderBook(t)
	s := newShell(t, "PGPASSWORD="+d.password())
	dir := t.TempDir()
	storetest.Must(t, os.Symlink(self(t), filepath.Join(dir, "bellhop")))
	s.env = append(s.env, "PATH="+dir+":"+os.Getenv("PATH"))
	lines := pagestest.Lines(t, outboxPage, "Install")
	follow(t, s, dir, []string{d.line(lines[0]), d.line(lines[1])}, []step{{line: "outbox install", want: "made the outbox"}, {line: "--print"}})
	printed, err := os.ReadFile(filepath.Join(dir, "0042_bellhop.sql"))
	storetest.Must(t, err)
	databasetest.Exec(t, d.admin, string(printed))

	databasetest.Exec(t, d.app, sqlOf(t, "Publish"))
	for i, call := range ofDriver.FindAllStringSubmatch(pagestest.Section(t, outboxPage, "Publish"), -1) {
		query := call[1]
		for _, parameter := range []string{"$1", "$2", "$3", "$4"} {
			query = strings.Replace(query, "%s", parameter, 1)
		}
		databasetest.Ask(t, d.app, query, "order.timeout", `{"total":12}`, []string{"python", "node"}[i], "30m")
	}
	databasetest.Exec(t, d.app, "SELECT bellhop.publish('order.timeout', id => 'order-4711', if_exists => 'refuse')")
	serve := exec.Command("sh", "-c", "exec env "+d.line(lines[2]))
	serve.Dir, serve.Env = dir, s.env
	daemon := s.launch(serve)
	rows := func() any { return databasetest.Ask(t, d.admin, "SELECT count(*) FROM bellhop.outbox")[0] }
	storetest.Eventually(t, "all but one are relayed", func() bool { return rows() == int64(1) })
	for _, id := range []string{"order-4711", "python", "node"} {
		contains(t, s.call("inspect", "order.timeout", id), "scheduled")
	}
	s.call("cancel", "order.timeout", "order-4711")
	databasetest.Exec(t, d.admin, sqlOf(t, "Refused"))
	storetest.Eventually(t, "what was refused is relayed", func() bool { return rows() == int64(0) })
	contains(t, s.call("inspect", "order.timeout", "order-4711"), "ready")
	daemon.stop()
	databasetest.Exec(t, d.app, "SELECT bellhop.publish('order.timeout')")
	databasetest.Exec(t, d.admin, strings.Replace(sqlOf(t, "Copies and backups"), "2030", "2130", 1))
	if n := rows(); n != int64(0) {
		t.Errorf("%v rows are left of a backup", n)
	}
}
