package notify

import (
	"errors"
	"slices"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// Faults returns a joined Fault for each field that a publish of m would be refused for,
// the size of its body and the named fields aside: for a caller that could not read
// those, and reports all faults at once.
func (m *Message) Faults(except ...string) error {
	var faults []error
	for _, f := range fault.All(m.check(len(m.Body))) {
		if !slices.Contains(except, f.Field) {
			faults = append(faults, f)
		}
	}
	return errors.Join(faults...)
}

// checkAsks returns a joined Fault for each thing that a message asks for and that does not
// go with the others.
func (m *Message) checkAsks() error {
	if m.IfBusy == "" && m.Group == "" && m.AfterGroup == "" && m.OnDead == "" && m.Late == "" && m.IfExists == "" && m.Then == "" && m.MaxWait == 0 && m.UniqueFor == 0 {
		return nil
	}
	var faults []error
	refuse := func(wrong bool, field, format string, args ...any) {
		if wrong {
			faults = append(faults, fault.New(field, format, args...))
		}
	}
	unnamed := m.ID == ""
	refuse(m.IfBusy != "" && m.key() == "" && !m.Broadcast, "if_busy", "if_busy %s: the key is missing; give the one of which others may be under way", m.IfBusy)
	refuse(m.OnDead != "" && m.AfterGroup == "" && !m.Broadcast, "on_dead", "on_dead %s: it says what holds back a message with after_group; give both", m.OnDead)
	timed := m.Delay != 0 || m.Spread != 0 || !m.Due.IsZero() && m.Restore == nil
	refuse(m.AfterGroup != "" && timed, "after_group", "after_group %s: the end of the group is its time; leave out delay, due and spread, and reschedule it for a time at the latest", m.AfterGroup)
	refuse(m.AfterGroup != "" && m.IfExists == Debounce, "if_exists", "if_exists %s: what waits for a group is not put off; use replace", m.IfExists)
	refuse(m.Then != "" && (m.Group != "" || m.AfterGroup != ""), "then", "then %s: what follows another message joins no group, and waits for none; leave it out, or give this one an id of its own", m.Then)
	refuse(m.Late != "" && m.LateAfter == 0 && !m.Broadcast, "late", "late %s: late_after is missing; give how long after its first due time a claim is too late", m.Late)
	refuse(m.UniqueFor != 0 && unnamed, "unique_for", "unique_for %v: the id is missing; name the message", m.UniqueFor)
	refuse(m.IfExists != "" && m.IfExists != Refuse && unnamed, "if_exists", "if_exists %s: the id is missing; name the message", m.IfExists)
	refuse(m.Then != "" && unnamed, "then", "then %s: the id is missing; name the message", m.Then)
	refuse(m.IfExists == Debounce && m.Delay == 0 && m.AfterGroup == "", "delay", "delay: it is missing; debounce puts the message off by it")
	refuse(m.MaxWait != 0 && m.IfExists != Debounce, "max_wait", "max_wait %v: it is for if_exists=debounce alone; leave it out", m.MaxWait)
	refuse(m.MaxWait != 0 && m.IfExists == Debounce && m.MaxWait < m.Delay, "max_wait", "max_wait %v: it is less than the delay, %v", m.MaxWait, m.Delay)
	refuse(m.Restore != nil && (m.IfExists != "" || m.Then != ""), "restore", "restore: it excludes if_exists and then; leave them out")
	return errors.Join(faults...)
}
