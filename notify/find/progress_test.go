package find

import "testing"

// What was looked at before anything was counted is not counted twice.
func TestProgress(t *testing.T) {
	t.Parallel()
	s := &search{ended: true, at: position{Looked: 1}}
	if looked, of, _ := s.progress(); looked != 1 || of != 1 {
		t.Errorf("before anything is counted: looked at %d of %d", looked, of)
	}
	s.at.Of += 2000
	if looked, of, _ := s.progress(); looked != 1 || of != 2000 {
		t.Errorf("once it is: looked at %d of %d", looked, of)
	}
}
