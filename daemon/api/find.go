package api

import "github.com/bellhopd/bellhop/notify/find"

// Looked is how far a search is.
type Looked struct {
	Looked int64  `json:"looked" doc:"how many messages it looked at so far, those of the calls before included; for a whole id, in how many topics it looked for that" example:"212000"`
	Of     int64  `json:"of" doc:"how many there are to look at, as far as they are counted: of very many topics that takes several answers" example:"1000000"`
	Cursor string `json:"cursor,omitempty" doc:"give it as cursor, with the same question, to go on; missing: this was all"`
	Missing
}

// Found is a page of messages that a question asks for.
type Found struct {
	Messages []Message `json:"messages" nullable:"false" doc:"may be few, or none, on a page that is not the last: see cursor"`
	Looked
}

// LookedOf returns how far a page brings its search.
func LookedOf(p find.Page, missing Missing) Looked {
	return Looked{Looked: p.Looked, Of: p.Of, Cursor: p.Cursor, Missing: missing}
}

// Acted is what an act on all that a question asks for did by one call.
type Acted struct {
	Matched int `json:"matched" doc:"messages that the question asks for, of this call"`
	Done    int `json:"done" doc:"those that were changed, of this call; the others had changed meanwhile, or it is a dry run"`
	Looked
}

// ActedOf returns what an act did in its JSON form, with the shards that it passed over.
func ActedOf(a find.Acted, missing Missing) Acted {
	return Acted{Matched: a.Matched, Done: a.Done, Looked: Looked{Looked: a.Looked, Of: a.Of, Cursor: a.Cursor, Missing: missing}}
}
