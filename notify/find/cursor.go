package find

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A position is where a search goes on: all that it knows.
type position struct {
	Question string `json:"q"` // its sign
	Now      int64  `json:"n"` // from which its moments count, in ms by Redis's clock; 0: none does
	Shard    int    `json:"s,omitempty"`
	Place    int    `json:"p,omitempty"` // index
	Topic    string `json:"t,omitempty"` // the last one of whose place something was seen, or that was passed over
	Time     string `json:"m,omitempty"` // of the last member seen in that place; empty: all of the place was seen
	Member   []byte `json:"e,omitempty"`
	Looked   int64  `json:"l,omitempty"`
	Of       int64  `json:"o,omitempty"`
	Missing  []int  `json:"x,omitempty"` // shards

	Counted   int    `json:"c,omitempty"` // shards whose members Of has
	CountedTo string `json:"k,omitempty"` // the last topic of the next shard that Of has, too

	Began int64 `json:"b,omitempty"` // when an act began in the shard, by its clock, in ms
	Due   int64 `json:"d,omitempty"` // to which an act reschedules, in ms
}

// mostMember is how much of a member, or of a name, a position keeps: ours are shorter.
const mostMember = 512

func (p *position) mark() store.Mark { return store.Mark{Time: p.Time, Member: string(p.Member)} }

func (p *position) setMark(m store.Mark) {
	if len(m.Member) > mostMember {
		m.Member = m.Member[:mostMember] + "\xff" // foreign ones that begin as this one does are passed over
	}
	p.Time, p.Member = m.Time, []byte(m.Member)
}

// signOf returns what binds a cursor to a question, and to an act.
func signOf(question string) string {
	sum := sha256.Sum256([]byte(question))
	return hex.EncodeToString(sum[:8])
}

func (p *position) cursor() string {
	text, _ := json.Marshal(p) // has no error
	return base64.RawURLEncoding.EncodeToString(text)
}

var timeGrammar = regexp.MustCompile(`^(-?([0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|inf))?$`)

// parseCursor returns the position of a cursor that a search with that sign made. The error is a
// notify.Fault.
func parseCursor(cursor, sign string) (p position, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil || !p.isSane() {
		return p, fault.New("cursor", "cursor %.100q: it is none of a search; use the cursor of the answer before, or none to begin", cursor)
	}
	if p.Question != sign {
		return p, fault.New("cursor", "cursor %.100q: it is that of another question or act; use it with the one that it came from, or none to begin", cursor)
	}
	return p, nil
}

// isSane reports whether a search can go on from the position.
func (p *position) isSane() bool {
	_, err := strconv.ParseFloat(p.Time, 64)
	times := []int64{p.Now, p.Began, p.Due}
	for _, ms := range times {
		if ms < 0 || ms > record.MaxDue.UnixMilli() {
			return false
		}
	}
	return p.Shard >= 0 && p.Place >= 0 && p.Looked >= 0 && p.Of >= 0 && p.Counted >= 0 && len(p.Member) <= mostMember+1 &&
		timeGrammar.MatchString(p.Time) && (p.Time == "" || err == nil)
}

func ms(t time.Time) int64 { return t.UnixMilli() }
