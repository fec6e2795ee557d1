package console

import "sync"

// sent are the forms that were sent lately, by the random field once that each has.
type sent struct {
	mu    sync.Mutex
	forms map[string]bool
	order []string
}

const mostSent = 10_000

// first reports whether a form is sent for the first time.
func (s *sent) first(once string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if once == "" || len(once) > 100 || s.forms[once] {
		return false
	}
	if s.forms == nil {
		s.forms = make(map[string]bool)
	}
	if len(s.order) == mostSent {
		delete(s.forms, s.order[0])
		s.order = s.order[1:]
	}
	s.forms[once] = true
	s.order = append(s.order, once)
	return true
}

// forget has a form count as not sent.
func (s *sent) forget(once string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.forms, once)
}
