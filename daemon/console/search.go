package console

// A progress is how far a search is.
type progress struct{ Looked, Of int64 }

// Percent returns how far it is, from 0 to 100.
func (p progress) Percent() int64 {
	if p.Of <= 0 {
		return 100
	}
	return min(100, 100*p.Looked/p.Of)
}
