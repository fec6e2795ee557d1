package find

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

const (
	slice         = 500 * time.Microsecond // of Redis, at the most, about
	leastWork     = 128                    // members of a slice: 0.25 ms; a busy machine makes calls look longer
	firstWork     = 64
	mostWork      = 500
	idWork        = 250                   // topics in which a first slice looks for an id
	namesPage     = 500                   // names read in one call, so few that Redis is done within a millisecond
	tallyPage     = 250                   // the same if what is there is counted, in few places
	tallyWork     = 750                   // such names times places
	bareNamesPage = 2000                  // the same if nothing but names is read
	tallyTime     = 40 * time.Millisecond // of a call
)

// CallTime is within which a shard must answer a call of a search. Tests give a busy machine more.
var CallTime = 2 * time.Second

// errPassed is the error of a shard that did not answer an earlier call.
var errPassed = errors.New("it did not answer an earlier call of this search; search again when it does")

// A search is one call of Find or Act.
type search struct {
	*Finder
	query  Query
	sought *store.Sought
	places []script.Place
	id     string // whole; empty: any
	may    func(topic string) bool
	limit  int  // 0: none
	most   int  // matches of a slice
	paged  bool // ends when the records that it found fill a page
	brief  bool // reads no records
	take   func(ctx context.Context, shard store.Shard, found []notify.Info, now time.Time) error
	spares func(i *notify.Info, now time.Time) bool           // whether a match does not count; nil: none
	enter  func(ctx context.Context, shard store.Shard) error // is called with each shard before the search looks at it; nil: nothing

	shards  []store.Shard
	at      position
	missing *store.MissingError
	failed  *position // of the first shard that this call passed over; nil: none
	ended   bool

	topics []string       // of the place, to look at next
	spans  []record.Names // of further ones, not read yet
	opened bool           // whether both are those of the place

	began time.Time
	left  int           // messages until it is full
	size  int64         // bytes of records that were found
	full  int64         // of which so many fill a page
	work  int           // of a slice
	ahead int           // topics of a slice
	least time.Duration // that a call took
}

// search returns a search at its position, and the error of its options. act is what it is for, empty: for
// Find.
func (f *Finder) search(ctx context.Context, q Query, o Options, act string) (*search, error) {
	if len(q.String()) == 0 {
		return nil, fault.New("q", "q: it is empty; ask with terms such as %s", allTerms)
	}
	if o.Limit != 0 {
		if err := fault.Within("limit", "limit", o.Limit, 1, MaxLimit); err != nil {
			return nil, err
		}
	}
	if o.Size < 0 {
		return nil, fault.New("size", "size %d: it is negative; use zero or more", o.Size)
	}
	s := &search{
		Finder: f, query: q, may: o.May, limit: o.Limit, full: cmp.Or(o.Size, pageBytes), missing: &store.MissingError{},
		began: time.Now(), most: mostWork, work: firstWork, ahead: firstWork,
	}
	sign := signOf(act + "\n" + q.String())
	var err error
	if s.at, err = f.begin(ctx, q, o.Cursor, sign); err != nil {
		return nil, err
	}
	s.query.now = time.UnixMilli(s.at.Now)
	s.sought, s.places, s.id = s.query.sought(), s.query.places(), s.query.wholeID()
	if s.id != "" { // to look in a topic costs the same in all
		s.work, s.ahead = idWork, idWork
	}
	if s.shards, err = f.store.Shards(ctx); err != nil {
		return nil, err
	}
	for _, n := range s.at.Missing {
		if n >= 0 && n < len(s.shards) {
			s.missing.Add(s.shards[n], errPassed)
		}
	}
	return s, nil
}

// begin returns where a search begins, or goes on. Moments count from its first call on, by Redis's clock.
func (f *Finder) begin(ctx context.Context, q Query, cursor, sign string) (position, error) {
	if cursor != "" {
		return parseCursor(cursor, sign)
	}
	at := position{Question: sign}
	if q.countsFromNow() {
		now, err := f.store.Now(ctx)
		if err != nil {
			return at, err
		}
		at.Now = ms(now)
	}
	return at, nil
}

// progress returns how far the search is, and the cursor with which it goes on. Until all is counted it may have looked at more than that.
func (s *search) progress() (looked, of int64, cursor string) {
	if s.id != "" {
		s.at.Of = max(s.at.Of, s.at.Looked+int64(len(s.topics)))
	}
	switch {
	case s.failed != nil && len(s.missing.Shards) == len(s.shards): // no other one answered
		s.at, cursor = *s.failed, s.failed.cursor()
	case !s.ended:
		s.at.Missing = s.missing.Shards
		cursor = s.at.cursor()
	}
	return s.at.Looked, max(s.at.Of, s.at.Looked), cursor
}

// run searches until it has enough, or its time is over. The error is that of the connection, of take, or a
// MissingError.
func (s *search) run(ctx context.Context) error {
	s.left = s.limit
	for !s.isEnough() {
		if s.at.Shard >= len(s.shards) || len(s.places) == 0 {
			s.ended = true
			break
		}
		shard := s.shards[s.at.Shard]
		if slices.Contains(s.missing.Shards, shard.Number()) {
			s.nextShard()
			continue
		}
		if err := s.step(ctx, shard); err != nil {
			if err = s.passOver(ctx, shard, err); err != nil {
				return err
			}
		}
	}
	return s.missing.Among(len(s.shards))
}

// isEnough reports whether the search returns what it has.
func (s *search) isEnough() bool {
	return s.limit > 0 && s.left <= 0 || s.paged && s.size >= s.full || s.since(s.began) > endAfter
}

// passOver notes a shard that does not answer, and where the search goes on if no other one does; it returns any other error.
func (s *search) passOver(ctx context.Context, shard store.Shard, err error) error {
	isBegun := s.at.Began != 0 && s.shards[s.at.Shard].Number() == shard.Number() // an act goes on there, or it would do things twice
	if ctx.Err() != nil || len(s.shards) == 1 || isBegun || !reach.Retryable(err) || errors.Is(err, notify.ErrUnreplicated) {
		return err
	}
	if s.failed == nil {
		at := s.at
		at.Missing, s.failed = slices.Clone(s.missing.Shards), &at
	}
	if !slices.Contains(s.missing.Shards, shard.Number()) {
		s.missing.Add(shard, err)
	}
	return nil
}

func (s *search) nextShard() {
	s.at.Shard, s.at.Place, s.at.Began = s.at.Shard+1, 0, 0
	s.close()
}

func (s *search) nextPlace() {
	if s.at.Place++; s.at.Place >= len(s.places) || s.id != "" {
		s.nextShard()
	}
	s.close()
}

// close leaves a place.
func (s *search) close() {
	s.at.Topic, s.opened, s.topics = "", false, nil
	s.at.setMark(store.Mark{})
}

// step looks at some members, or reads names of topics.
func (s *search) step(ctx context.Context, shard store.Shard) error {
	if s.enter != nil && s.at.Began == 0 {
		if err := s.enter(ctx, shard); err != nil {
			return err
		}
	}
	if s.at.Place >= len(s.places) {
		s.nextShard()
		return nil
	}
	place := s.places[s.at.Place]
	if s.isMixed(place) {
		return s.look(ctx, shard, place, s.query.beginnings())
	}
	if !s.opened {
		s.spans, s.opened = record.NamesOf(s.query.topics), true
		if s.at.Topic != "" {
			s.spans = from(s.spans, s.at.Topic, s.at.Time != "")
		}
	}
	switch {
	case len(s.topics) > 0:
		return s.look(ctx, shard, place, s.topics[:min(s.ahead, len(s.topics))])
	case len(s.spans) > 0:
		return s.readNames(ctx, shard, place)
	}
	s.nextPlace()
	return nil
}

// isMixed reports whether the search goes through a place of all topics. It looks for a whole id by topic, in all places at once.
func (s *search) isMixed(place script.Place) bool { return s.id == "" && place.OfAllTopics() }

// from returns what is left of ranges of names behind a name, or from it on.
func from(spans []record.Names, name string, with bool) []record.Names {
	if !with {
		name += record.JustBehind
	}
	spans = slices.DeleteFunc(slices.Clone(spans), func(n record.Names) bool { return n.To <= name })
	if len(spans) > 0 {
		spans[0].From = max(spans[0].From, name)
	}
	return spans
}

// readNames reads names of topics to look at.
func (s *search) readNames(ctx context.Context, shard store.Shard, place script.Place) error {
	page, err := s.occupied(ctx, shard, s.spans, []script.Place{place}, false, namesPage)
	if err != nil {
		return err
	}
	s.topics = slices.DeleteFunc(page.Topics, func(topic string) bool { return !s.looksAt(topic) })
	if s.spans = from(s.spans, page.Last, false); page.Last == "" {
		s.spans = nil
	}
	if len(s.topics) > 0 && s.topics[0] == s.at.Topic {
		return nil
	}
	if s.at.setMark(store.Mark{}); len(s.topics) == 0 && page.Last != "" { // nothing is left of the topic of the mark
		s.at.Topic = cut(page.Last)
	}
	return nil
}

// cut returns as much of a name as a position keeps: the search goes on at foreign ones that begin so.
func cut(name string) string { return name[:min(len(name), mostMember)] }

// occupied is [store.Shard.Occupied] when it is the turn of this search. For a whole id it returns all topics: to look for it in a topic takes
// no longer than to ask whether the topic has anything.
func (s *search) occupied(ctx context.Context, shard store.Shard, spans []record.Names, places []script.Place, counted bool, most int) (page store.Occupied, err error) {
	_, err = s.Paced(ctx, func(ctx context.Context) (err error) {
		if s.id != "" {
			page, err = namesOf(ctx, shard, spans)
		} else {
			page, err = shard.Occupied(ctx, s.sought, places, counted, most, spans)
		}
		return err
	})
	return page, err
}

// namesOf returns topics in ranges of names, each as one to look in.
func namesOf(ctx context.Context, shard store.Shard, spans []record.Names) (page store.Occupied, err error) {
	page.Topics, err = shard.TopicNames(ctx, bareNamesPage, spans)
	if len(page.Topics) == bareNamesPage {
		page.Last = page.Topics[bareNamesPage-1]
	}
	return page, err
}

func (s *search) looksAt(topic string) bool {
	return record.CheckAnyTopic(topic) == nil && s.query.wantsTopic(topic) && (s.may == nil || s.may(topic))
}

// look looks at a slice of places of topics.
func (s *search) look(ctx context.Context, shard store.Shard, place script.Place, topics []string) error {
	var found store.Found
	took, err := s.Paced(ctx, func(ctx context.Context) (err error) {
		most := s.most
		if s.limit > 0 {
			most = min(most, s.left)
		}
		in := store.Slice{Place: place, Topics: topics, After: s.at.mark(), Work: s.work, Most: most, Brief: s.brief}
		if s.id != "" {
			found, err = shard.LookUp(ctx, s.id, in)
		} else {
			found, err = shard.Find(ctx, s.sought, in)
		}
		return err
	})
	if err != nil {
		return err
	}
	s.adapt(took, len(topics), &found)
	if matches := s.matches(place, &found); len(matches) > 0 {
		s.left -= len(matches)
		if err := s.take(ctx, shard, matches, found.Now); err != nil {
			return err
		}
	}
	s.count(place, &found)
	s.goOn(place, &found)
	return nil
}

// adapt makes the next slice larger or smaller.
func (s *search) adapt(took time.Duration, topics int, found *store.Found) {
	if s.least == 0 || took < s.least {
		s.least = took
	}
	switch net := took - s.least; {
	case net > slice:
		s.work = max(s.work/2, min(s.work, leastWork))
	case net < slice/2:
		s.work = min(s.work*3/2, mostWork)
	}
	if found.Through == topics {
		s.ahead = min(2*s.ahead, mostWork)
	} else {
		s.ahead = max(found.Through, 1)
	}
}

// matches returns what was found and is what the question asks for.
func (s *search) matches(place script.Place, found *store.Found) (all []notify.Info) {
	for i := range found.Matches {
		look := &found.Matches[i]
		s.size += int64(look.Size)
		info, err := notify.InfoOf(look)
		isThere := err == nil && (s.id != "" || info.State == stateIn(place))
		if isThere && s.query.matches(info) && s.looksAt(info.Topic) && (s.spares == nil || !s.spares(&info, found.Now)) {
			all = append(all, info)
		}
	}
	return all
}

// count counts the members that were looked at, and no others: their number tells of topics.
func (s *search) count(place script.Place, found *store.Found) {
	if !s.isMixed(place) {
		s.at.Looked += found.Looked
		return
	}
	for topic, n := range found.LookedOf {
		if s.looksAt(topic) {
			s.at.Looked += int64(n)
		}
	}
}

// goOn moves the position behind what was looked at.
func (s *search) goOn(place script.Place, found *store.Found) {
	s.at.setMark(found.Mark)
	switch {
	case !s.isMixed(place):
		if s.at.Topic = s.topics[max(found.Through-1, 0)]; found.Mark.Time != "" && found.Through < len(s.topics) {
			s.at.Topic = s.topics[found.Through]
		}
		s.topics = s.topics[found.Through:]
	case found.Through > 0:
		s.nextPlace()
	}
}

// tally counts what there is to look at, for a while: the next call goes on. For a whole id, progress counts the topics whose names were
// read: to read them twice takes as long as to look in them.
func (s *search) tally(ctx context.Context) error {
	for s.id == "" && s.at.Counted < len(s.shards) && len(s.places) > 0 && s.since(s.began) < tallyTime {
		shard := s.shards[s.at.Counted]
		last, err := "", error(nil)
		if !slices.Contains(s.missing.Shards, shard.Number()) {
			if last, err = s.tallySome(ctx, shard); err != nil {
				err = s.passOver(ctx, shard, err)
			}
		}
		if err != nil {
			return err
		}
		if s.at.CountedTo = cut(last); last == "" {
			s.at.Counted++
		}
	}
	return nil
}

// tallySome counts in some topics of a shard, and returns the last one, empty at the end.
func (s *search) tallySome(ctx context.Context, shard store.Shard) (last string, err error) {
	spans := record.NamesOf(s.query.topics)
	if s.at.CountedTo != "" {
		spans = from(spans, s.at.CountedTo, false)
	}
	page, err := s.occupied(ctx, shard, spans, s.places, true, min(tallyPage, tallyWork/len(s.places)))
	if err != nil {
		return "", err
	}
	for i, topic := range page.Topics {
		if s.looksAt(topic) {
			s.at.Of += page.Sizes[i]
		}
	}
	return page.Last, nil
}
