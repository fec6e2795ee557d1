package notify

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
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

// checkAsks returns a joined Fault for each wrong thing that a message asks for.
func (m *Message) checkAsks() error {
	return errors.Join(m.checkLease(), m.checkLate(), m.checkIfExists(), m.checkUnique())
}

func (m *Message) checkLease() error {
	between := func(name string, d time.Duration) error {
		switch {
		case d == 0:
			return nil
		case m.Broadcast:
			return fault.New(name, "%s %v: a broadcast has none; leave it out", name, d)
		}
		return fault.Within(name, name, d, record.MinLease, record.MaxLease)
	}
	return errors.Join(between("lease", m.Lease), between("try_timeout", m.TryTimeout))
}

func (m *Message) checkLate() error {
	if m.Fail == "" && m.Late == "" && m.LateAfter == 0 {
		return nil
	}
	faults := []error{
		m.oneOf("fail", string(m.Fail), true, string(FailBury), string(FailDrop)),
		m.oneOf("late", string(m.Late), true, string(LateMark), string(LateDrop), string(LateBury)),
	}
	switch {
	case m.LateAfter != 0 && m.Broadcast:
		faults = append(faults, fault.New("late_after", "late_after %v: a broadcast has none; leave it out", m.LateAfter))
	case m.LateAfter != 0 && m.LateAfter < time.Millisecond:
		faults = append(faults, fault.New("late_after", "late_after %v: the shortest is 1ms", m.LateAfter))
	case m.LateAfter == 0 && m.Late != "":
		faults = append(faults, fault.New("late", "late %s: late_after is missing; give how long after its first due time a claim is too late", m.Late))
	}
	return errors.Join(faults...)
}

func (m *Message) checkIfExists() error {
	if m.IfExists == "" && m.Then == "" && m.MaxWait == 0 {
		return nil
	}
	faults := []error{
		m.oneOf("if_exists", string(m.IfExists), false, string(Refuse), string(Keep), string(Replace), string(Debounce)),
		m.oneOf("then", string(m.Then), true, string(After)),
	}
	refuse := func(wrong bool, field, format string, args ...any) {
		if wrong {
			faults = append(faults, fault.New(field, format, args...))
		}
	}
	refuse(m.ID == "" && m.IfExists != "" && m.IfExists != Refuse, "if_exists", "if_exists %s: the id is missing; name the message", m.IfExists)
	refuse(m.ID == "" && m.Then != "", "then", "then %s: the id is missing; name the message", m.Then)
	refuse(m.IfExists == Debounce && m.Delay == 0, "delay", "delay: it is missing; debounce puts the message off by it")
	switch {
	case m.MaxWait == 0:
	case m.IfExists != Debounce:
		refuse(true, "max_wait", "max_wait %v: it is for if_exists=debounce alone; leave it out", m.MaxWait)
	case m.MaxWait < m.Delay || m.MaxWait < time.Millisecond:
		refuse(true, "max_wait", "max_wait %v: it is less than the delay, %v", m.MaxWait, cmp.Or(m.Delay, time.Millisecond))
	}
	refuse(m.Restore != nil && (m.IfExists != "" || m.Then != ""), "restore", "restore: it excludes if_exists and then; leave them out")
	return errors.Join(faults...)
}

func (m *Message) checkUnique() error {
	switch {
	case m.UniqueFor == 0:
		return nil
	case m.ID == "":
		return fault.New("unique_for", "unique_for %v: the id is missing; name the message", m.UniqueFor)
	}
	return fault.Within("unique_for", "unique_for", m.UniqueFor, time.Millisecond, maxUniqueFor)
}

// oneOf returns a Fault for a field with another value than some; an empty one is none.
func (m *Message) oneOf(field, value string, ofMessage bool, values ...string) error {
	switch {
	case value == "":
		return nil
	case m.Broadcast && ofMessage:
		return fault.New(field, "%s %.100q: a broadcast has none; leave it out", field, value)
	case !slices.Contains(values, value):
		return fault.New(field, "%s %.100q: use %s", field, value, strings.Join(values, ", "))
	}
	return nil
}
