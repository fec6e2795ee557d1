package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// moved is a store into which an export is published.
type moved struct {
	*storetest.Player
	lines []string
}

// moveGroups plays a scenario, exports what it left, and opens another store.
func moveGroups(t *testing.T, scenario string) *moved {
	t.Helper()
	from := storetest.NewPlayer(t, storetest.Scenario{})
	from.Play(scenario)
	return &moved{storetest.NewPlayer(t, storetest.Scenario{}), exportedLines(t, from)}
}

func exportedLines(t *testing.T, p *storetest.Player) []string {
	t.Helper()
	var out bytes.Buffer
	storetest.Must(t, storetest.ErrOf(p.Inspector.Export(t.Context(), &out, nil)))
	return slices.Collect(strings.Lines(out.String()))
}

// line returns the line that has a part.
func (m *moved) line(part string) string {
	i := slices.IndexFunc(m.lines, func(line string) bool { return strings.Contains(line, part) })
	if i < 0 {
		m.Fatalf("no line has %s: %s", part, m.lines)
	}
	return m.lines[i]
}

// restore restores a line that has a part. A group that is there already is no fault.
func (m *moved) restore(part string) error {
	m.Helper()
	line := m.line(part)
	if strings.HasPrefix(line, `{"kind":"group"`) {
		var g store.ExportedGroup
		storetest.Must(m, json.Unmarshal([]byte(line), &g))
		storetest.Must(m, storetest.ErrOf(m.Store.Of(g.Topic).RestoreGroup(m.Context(), &g)))
		return nil
	}
	message, err := notify.ParseExported([]byte(line))
	storetest.Must(m, err)
	_, err = m.Publisher.Publish(m.Context(), message)
	return err
}

// all restores lines, in an order, and then plays something.
func (m *moved) all(scenario string, parts ...string) {
	m.Helper()
	for _, part := range parts {
		if err := m.restore(part); err != nil && !errors.Is(err, notify.ErrExists) {
			m.Fatalf("restore %s: %v", part, err)
		}
	}
	m.Play(scenario)
}

const (
	doneLine  = `"id":"done"`
	groupLine = `"name":"g"`
)

func idLine(id string) string { return fmt.Sprintf(`"id":%q`, id) }

// What waits for a group that is restored comes behind the line of the group alone, in whatever order the messages come, and however much is handled
// between; and an import that ended early is completed by another one.
func TestImportOfGroup(t *testing.T) {
	t.Parallel()
	m := moveGroups(t, `
	publish a b c d e group=g
	claim 2 = a b
	ack a
	bury b = dead
	publish done after_group=orders:g on_dead=go ttl=1h = scheduled
	`)
	const nobodyIsLeft = "\n\tcarry\n\tis done=scheduled\n\thas done left=0\n"
	m.all("carry\n\tis done=scheduled\n\thas done left=0 expires=none", doneLine)
	m.all("claim 9 = c d\n\tack c\n\tack d"+nobodyIsLeft, idLine("c"), idLine("d"))
	// Here it ended early. Another one begins anew: what was handled comes again.
	m.all("claim 9 = c d e\n\tack c\n\tack d"+nobodyIsLeft[:len("\n\tcarry\n\tis done=scheduled")], idLine("e"), idLine("d"), idLine("c"), doneLine, idLine("b"))
	m.all("carry\n\thas done left=1\n\tis done=scheduled", groupLine)
	m.all("ack e\n\tcarry\n\thas done left=none acked=6 died=1 expires=now+1h\n\tcarry\n\tclaim 1 = done\n\tack done", groupLine)
	m.all("publish f group=g = complete\n\tcarry\n\tclaim 1 = nothing", groupLine)
}

// Where the line of the group is the last one of all, and nobody is left by then, that has the callback come; so it does of an empty group.
func TestImportOfGroupThatEnded(t *testing.T) {
	t.Parallel()
	m := moveGroups(t, `
	publish a group=g
	publish done after_group=orders:g = scheduled
	publish other after_group=orders:empty = scheduled
	`)
	m.all("claim 1 = a\n\tack a\n\tcarry\n\tis done=scheduled other=scheduled", doneLine, idLine("other"), idLine("a"))
	m.all("carry\n\thas done left=none acked=1\n\tis other=scheduled", groupLine)
	m.all("carry\n\thas other left=none acked=0", `"name":"empty"`)
}

// What publishers have wait for a group meanwhile waits for what is to be restored, too.
func TestCallbackAmidAnImport(t *testing.T) {
	t.Parallel()
	m := moveGroups(t, "publish a b group=g")
	m.all("publish done after_group=orders:g = scheduled\n\tclaim 1 = a\n\tack a\n\tcarry\n\tis done=scheduled", idLine("a"))
	m.all("carry\n\thas done left=1", idLine("b"), groupLine)
	m.all("claim 1 = b\n\tack b\n\tcarry\n\thas done left=none acked=2")
}

// What the carrier was to look at before an import began does not come amid that.
func TestLookAmidAnImport(t *testing.T) {
	t.Parallel()
	m := moveGroups(t, "publish b group=g delay=1h\n\tpublish done after_group=orders:g = scheduled")
	m.Play("publish a group=g\n\tpublish done after_group=orders:g = scheduled\n\tclaim 1 = a\n\tack a\n\tcancel done = scheduled")
	m.all("carry\n\tis done=scheduled\n\thas done left=0", doneLine)
	m.all("carry\n\tis done=scheduled\n\thas done left=1", idLine("b"), groupLine)
	m.all("cancel b = scheduled\n\tcarry\n\thas done left=none acked=1 cancelled=1")
}

// Copies in branches are restored as what they are: the group waits for each of them.
func TestExportOfGroupInBranches(t *testing.T) {
	t.Parallel()
	m := moveGroups(t, `
	set branches=mail,points
	publish a group=g
	publish b group=g delay=1h
	publish done after_group=orders:g = scheduled
	carry
	claim 1 topic=orders@mail = a
	bury a topic=orders@mail = dead
	`)
	m.Play("set branches=mail,points")
	m.all("carry\n\tis done=scheduled", `"topic":"orders@mail"`, doneLine, `"topic":"orders@points"`, idLine("b"))
	m.all("carry\n\thas done left=3", groupLine)
	m.all("purge a topic=orders@mail\n\tclaim 1 ack topic=orders@points = a\n\tcarry\n\thas done left=1\n\tcancel b = scheduled\n\tcarry\n\tcarry\n\tis done=none")
	m.Play("has done topic=orders@mail acked=1 died=1 cancelled=1\n\tis topic=orders@points done=ready")
}

// A complete group stays so elsewhere: its name is taken, what came stays as due as it was, and what is exported again is the same.
func TestExportOfCompleteGroup(t *testing.T) {
	t.Parallel()
	m := moveGroups(t, `
	publish a b group=g
	claim 2 = a b
	ack a
	bury b = dead
	publish done after_group=orders:g on_dead=go = scheduled
	carry
	has done left=none acked=1 died=1
	reschedule done delay=1h = scheduled
	`)
	m.all("carry\n\thas done left=none acked=1 died=1\n\tis done=scheduled", doneLine, idLine("b"), groupLine)
	m.all("publish c group=g = complete\n\tpublish another after_group=orders:g = complete\n\tis done=scheduled")
	storetest.Same(t, "exported again", sortedLines(m.lines), sortedLines(exportedLines(t, m.Player)))
	storetest.Should(t, m.restore(groupLine))
	m.all("reschedule done delay=0s = ready\n\tclaim 1 = done\n\tack done\n\tcarry\n\tclaim 1 = nothing\n\tpublish c group=g = complete")
}

// A name that was forgotten and given to another group is that group's: what waited for the first, and is tried again, takes nobody's place.
func TestExportOfSecondGroupOfAName(t *testing.T) {
	t.Parallel()
	m := moveGroups(t, `
	publish old after_group=orders:g = scheduled
	carry
	carry
	claim 1 = old
	nack old delay=1h
	redis HDEL groups:orders g #1
	publish a group=g
	publish done after_group=orders:g = scheduled
	`)
	m.all("is old=scheduled\n\thas old left=none\n\thas done left=1", doneLine, idLine("old"), idLine("a"), groupLine)
	m.all("claim 1 = a\n\tack a\n\tcarry\n\thas done left=none acked=1\n\tis old=scheduled")
}

// Groups come behind all messages, once each, and what cannot be read of them is left out.
func TestExportOfGroups(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, storetest.Scenario{})
	p.Play("publish a b group=g\n\tpublish c group=h\n\tpublish d\n\tredis HSET groups:orders \"#7\" ~g")
	var out bytes.Buffer
	sum, err := p.Inspector.Export(t.Context(), &out, nil)
	storetest.Must(t, err)
	storetest.Is(t, "groups", sum.Groups, 2)
	storetest.Is(t, "what is left out", sum.LeftOut, 1)
	var groups []bool
	for line := range strings.Lines(out.String()) {
		groups = append(groups, strings.HasPrefix(line, `{"kind":"group"`))
	}
	storetest.Same(t, "which lines are of groups", []bool{false, false, false, false, true, true}, groups)
}

func sortedLines(lines []string) []string { return slices.Sorted(slices.Values(lines)) }

// A line of a group that is wrong says so of each field, and changes nothing.
func TestWrongGroupLine(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, storetest.Scenario{})
	g := store.ExportedGroup{Topic: "a b", Name: "a b", Opened: time.UnixMilli(-1), Acked: -1, Callback: "x"}
	_, err := p.Shard.RestoreGroup(context.Background(), &g)
	for _, part := range []string{"topic", "name \"a b\": use 1 to 128", "opened", "acked", "callback \"x\": write TOPIC:ID"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v lacks %s", err, part)
		}
	}
}
