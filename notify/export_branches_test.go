package notify_test

import (
	"strings"
	"testing"
)

// An export has what waits to be copied, and the copies, but no settings: in another store what was due waits, ready, until branches are set there, and is
// copied then; what was a copy is none again.
func TestImportOfBranches(t *testing.T) {
	t.Parallel()
	m := moveGroups(t, `
	set branches=mail,points
	publish copied
	carry
	claim 1 topic=orders@mail = copied
	bury copied topic=orders@mail = dead
	pause
	publish due
	publish later delay=1h
	carry
	is due=ready
	`)
	if all := strings.Join(m.lines, ""); len(m.lines) != 4 || strings.Contains(all, "branches") {
		t.Errorf("the export is %s", all)
	}
	m.all(`
	carry
	is copied=none due=ready later=scheduled
	is topic=orders@mail copied=dead due=none
	is topic=orders@points copied=ready due=none
	set branches=mail,points
	carry
	is due=none later=scheduled
	is topic=orders@mail copied=dead due=ready
	claim 5 topic=orders@points = copied due
	hasten 1h
	carry
	is later=none
	claim 5 topic=orders@mail = due later
	claim 5 topic=orders@points = later
	`, "orders@mail", "orders@points", idLine("later"), idLine("due"))
}
