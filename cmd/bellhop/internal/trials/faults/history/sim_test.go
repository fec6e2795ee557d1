package history_test

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

const (
	simLease = 300 // ms
	simLimit = 4   // attempts
	simLoss  = 80  // ms of confirmed operations that a power cut forgets
	simAhead = 5   // ms between two claims of a worker
)

// A sim simulates a system that keeps its promises, in simulated time: publishers, workers,
// listeners, and a Redis with the steps of the scripts. It writes the history of that system.
type sim struct {
	rnd     *rand.Rand
	now     int64 // by the machine's clock, µs
	queue   events
	records []history.Record
	last    map[string]int64
	dead    map[string]bool

	redis     state
	snapshots []snapshot
	lives     int   // starts of Redis: calls of an earlier life are cut off
	offset    int64 // of Redis's clock, ms
	quiet     bool  // nothing new is published, nothing breaks
	kinds     int   // of faults: none; kills of processes; also faults of Redis
	ids       int
}

type event struct {
	at  int64
	seq int
	do  func()
}

type events struct {
	all []event
	seq int
}

func (e *events) Len() int { return len(e.all) }
func (e *events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e.all[i].at, e.all[j].at), cmp.Compare(e.all[i].seq, e.all[j].seq)) < 0
}
func (e *events) Swap(i, j int) { e.all[i], e.all[j] = e.all[j], e.all[i] }
func (e *events) Push(x any)    { e.all = append(e.all, x.(event)) }
func (e *events) Pop() any {
	last := e.all[len(e.all)-1]
	e.all = e.all[:len(e.all)-1]
	return last
}

// state is the contents of Redis.
type state struct {
	messages map[string]simMessage
	log      []history.Entry
	place    int              // entries of the log that were handed to the name
	held     map[string]int64 // id → end of the name's lease, ms
	tries    map[string]int
}

type simMessage struct {
	topic, id             string
	broadcast             bool
	place                 string
	due, deadline, expiry int64
	used, limit           int
	ttl                   int64
}

type snapshot struct {
	at int64
	state
}

func (s state) clone() state {
	return state{maps.Clone(s.messages), slices.Clone(s.log), s.place, maps.Clone(s.held), maps.Clone(s.tries)}
}

func newSim(seed uint64) *sim {
	s := &sim{
		rnd: rand.New(rand.NewPCG(seed, 7)), now: start * 1000, last: make(map[string]int64), dead: make(map[string]bool),
		redis: state{messages: make(map[string]simMessage), held: make(map[string]int64), tries: make(map[string]int)},
	}
	s.kinds = []int{0, 1, 3}[seed%3]
	return s
}

// run runs the system for a while, then without faults until all messages are settled.
func (s *sim) run(ms int64) {
	s.after(0, s.carry)
	for i := range 3 {
		s.publisher(fmt.Sprintf("p%d", i))
		s.claimer(fmt.Sprintf("w%d", i))
		s.subscriber(fmt.Sprintf("s%d", i))
		s.listener(fmt.Sprintf("l%d", i))
		s.named(fmt.Sprintf("n%d", i))
	}
	s.inTurn("o0")
	s.after(s.between(50, 300), s.disturb)
	end := s.now + ms*1000
	s.until(end)
	s.quiet = true
	s.until(end + 2_500_000)
	s.event("harness", history.Record{Op: history.Drained})
}

func (s *sim) until(end int64) {
	for s.queue.Len() > 0 && s.queue.all[0].at <= end {
		e := heap.Pop(&s.queue).(event)
		s.now = e.at
		e.do()
	}
	s.now = end
}

// after calls do after some µs.
func (s *sim) after(us int64, do func()) {
	s.queue.seq++
	heap.Push(&s.queue, event{s.now + us, s.queue.seq, do})
}

func (s *sim) roll(n int) int { return s.rnd.IntN(n) }

// between returns a random time in µs between two in ms.
func (s *sim) between(least, most int64) int64 { return least*1000 + s.rnd.Int64N((most-least)*1000) }

// clock returns Redis's clock in ms.
func (s *sim) clock() int64 { return s.now/1000 + s.offset }

func (s *sim) write(process string, r history.Record) {
	if s.dead[process] {
		return
	}
	r.At, r.Process = s.now, process
	s.records = append(s.records, r)
}

func (s *sim) event(process string, r history.Record) { s.write(process, r) }

// call makes a call to Redis. effect changes the state and fills in the reply. then gets the
// end of the call, unless the process is dead.
func (s *sim) call(process string, r history.Record, effect func(end *history.Record) history.Phase, then func(end history.Record)) {
	if s.dead[process] {
		return
	}
	s.last[process]++
	r.N, r.Phase = s.last[process], history.Call
	s.write(process, r)
	end := r
	end.Phase = history.Unknown
	life := s.lives
	there := func() {
		if s.lives == life {
			end.Phase = effect(&end)
		}
	}
	lost := !s.quiet && s.kinds > 0 && s.roll(100) < 3
	way := 50 + s.rnd.Int64N(400)
	if lost {
		if late := s.roll(3); late == 0 {
			way += s.between(1, 200)
		} else if late == 1 {
			there = func() {}
		}
	}
	s.after(way, there)
	back := way + 50 + s.rnd.Int64N(400)
	if lost {
		back = 2000
	}
	s.after(back, func() {
		reply := end
		if lost || s.lives != life {
			reply = history.Record{Op: r.Op, Topic: r.Topic, ID: r.ID, N: r.N, Phase: history.Unknown}
		}
		s.write(process, reply)
		if !s.dead[process] {
			then(reply)
		}
	})
}

func (s *sim) nothing(history.Record) {}

// publisher publishes, and cancels or reschedules some.
func (s *sim) publisher(process string) {
	if s.quiet || s.dead[process] {
		return
	}
	s.after(s.between(1, 20), func() { s.publisher(process) })
	s.ids++
	m := simMessage{topic: "claimed", id: fmt.Sprintf("m%d", s.ids), limit: simLimit, place: "scheduled"}
	switch s.roll(4) {
	case 0:
		m.topic = "handled"
	case 1:
		m.topic, m.broadcast, m.place = "news", true, "broadcasts"
	case 2:
		m.topic = "ordered"
	}
	if !m.broadcast && s.roll(5) == 0 {
		m.ttl = 20 + s.rnd.Int64N(500)
	}
	delay := int64(s.roll(4)) * s.rnd.Int64N(200)
	if s.roll(30) == 0 {
		delay = 60_000
	}
	r := history.Record{Op: history.Publish, Topic: m.topic, ID: m.id, TTL: m.ttl}
	if m.broadcast {
		r.Op = history.Broadcast
	}
	s.call(process, r, func(end *history.Record) history.Phase {
		m.due = s.clock() + 1 + delay
		if m.ttl > 0 {
			m.expiry = m.due + m.ttl
		}
		s.redis.messages[m.id] = m
		end.Due = m.due
		return history.OK
	}, s.nothing)
	if s.roll(10) == 0 {
		s.after(s.between(1, 100), func() { s.cancel(process, m) })
	}
	if s.roll(10) == 0 {
		s.after(s.between(1, 100), func() { s.reschedule(process, m) })
	}
}

func (s *sim) cancel(process string, m simMessage) {
	s.call(process, history.Record{Op: history.Cancel, Topic: m.topic, ID: m.id}, func(*history.Record) history.Phase {
		if now, there := s.redis.messages[m.id]; !there || now.place == "leased" {
			return history.No
		}
		delete(s.redis.messages, m.id)
		return history.OK
	}, s.nothing)
}

func (s *sim) reschedule(process string, m simMessage) {
	delay := s.rnd.Int64N(100)
	s.call(process, history.Record{Op: history.Reschedule, Topic: m.topic, ID: m.id}, func(end *history.Record) history.Phase {
		now, there := s.redis.messages[m.id]
		if !there || now.place == "leased" || now.place == "dead" {
			return history.No
		}
		now.due = s.clock() + 1 + delay
		if !now.broadcast {
			now.place = "scheduled"
		}
		if now.ttl > 0 {
			now.expiry = now.due + now.ttl
		}
		s.redis.messages[m.id], end.Due = now, now.due
		return history.OK
	}, s.nothing)
}

// carry does the work of the carrier.
func (s *sim) carry() {
	s.after(s.between(1, 4), s.carry)
	if n := len(s.snapshots); n == 0 || s.snapshots[n-1].at < s.now-5_000 {
		s.snapshots = append(s.snapshots[max(0, n-simLoss/5):], snapshot{s.now, s.redis.clone()})
	}
	now := s.clock()
	var due []simMessage
	for id, m := range s.redis.messages {
		switch {
		case m.place == "leased" && m.deadline <= 1000*now:
			m.used++
			m.due, m.place = m.deadline/1000, "ready"
			if m.used >= m.limit {
				m.place = "dead"
			}
		case m.place == "broadcasts" && m.due <= now:
			due = append(due, m)
			continue
		case m.place == "scheduled" && m.due <= now:
			m.place = "ready"
		}
		if m.expiry > 0 && m.expiry <= now && m.place != "leased" && m.place != "dead" {
			m.place = "dead"
		}
		s.redis.messages[id] = m
	}
	slices.SortFunc(due, func(a, b simMessage) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.id, b.id)) })
	for _, m := range due {
		position := s.now + s.offset*1000
		if n := len(s.redis.log); n > 0 {
			position = max(position, s.redis.log[n-1].Position+1)
		}
		s.redis.log = append(s.redis.log, history.Entry{Topic: m.topic, ID: m.id, Position: position})
		delete(s.redis.messages, m.id)
	}
}

// lease leases up to n ready messages of a topic.
func (s *sim) lease(topic string, n int) (taken []simMessage) {
	for _, m := range s.redis.messages {
		if m.topic == topic && m.place == "ready" && m.due <= s.clock() && (m.expiry == 0 || m.expiry > s.clock()) {
			taken = append(taken, m)
		}
	}
	slices.SortFunc(taken, func(a, b simMessage) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.id, b.id)) })
	taken = taken[:min(n, len(taken))]
	for i := range taken {
		taken[i].place, taken[i].deadline = "leased", s.now+1000*(s.offset+simLease)
		s.redis.messages[taken[i].id] = taken[i]
	}
	return taken
}

// held returns a message if it is leased until a time.
func (s *sim) held(id string, receipt int64) (simMessage, bool) {
	m, there := s.redis.messages[id]
	return m, there && m.place == "leased" && m.deadline == receipt
}

func (s *sim) ack(id string, receipt int64) history.Phase {
	if _, mine := s.held(id, receipt); !mine {
		return history.No
	}
	delete(s.redis.messages, id)
	return history.OK
}

func (s *sim) nack(id string, receipt int64, end *history.Record) history.Phase {
	m, mine := s.held(id, receipt)
	if !mine {
		return history.No
	}
	m.used++
	m.place, m.due = "scheduled", s.clock()+20
	if m.used >= m.limit {
		m.place = "dead"
	}
	end.State, end.Due = m.place, m.due
	s.redis.messages[id] = m
	return history.OK
}

func (s *sim) release(id string, receipt int64) history.Phase {
	m, mine := s.held(id, receipt)
	if !mine {
		return history.No
	}
	m.place = "ready"
	s.redis.messages[id] = m
	return history.OK
}

func (s *sim) extend(id string, receipt int64, lease int64, end *history.Record) history.Phase {
	m, mine := s.held(id, receipt)
	if !mine {
		return history.No
	}
	m.deadline = s.now + 1000*(s.offset+lease)
	end.Receipt = m.deadline
	s.redis.messages[id] = m
	return history.OK
}

// claimer claims and settles, and records all of it.
func (s *sim) claimer(process string) {
	if s.dead[process] {
		return
	}
	var got []simMessage
	r := history.Record{Op: history.Claim, Topic: "claimed", Lease: simLease}
	n := s.last[process] + 1
	s.call(process, r, func(end *history.Record) history.Phase {
		got = s.lease("claimed", 2)
		return history.OK
	}, func(end history.Record) {
		s.after(s.between(1, simAhead), func() { s.claimer(process) })
		if end.Phase != history.OK {
			return
		}
		s.records = s.records[:len(s.records)-1] // its end comes after the messages it took
		for _, m := range got {
			s.write(process, taken(m, history.Record{Op: history.Take, N: n}))
			s.after(s.between(1, 30), func() { s.settle(process, m) })
		}
		s.write(process, end)
	})
}

func taken(m simMessage, r history.Record) history.Record {
	r.Topic, r.ID, r.Due, r.Attempt, r.Receipt, r.Lease = m.topic, m.id, m.due, m.used+1, m.deadline, simLease
	return r
}

// settle makes a random call on a claimed message.
func (s *sim) settle(process string, m simMessage) {
	if s.dead[process] {
		return
	}
	r := history.Record{Op: history.Ack, Topic: m.topic, ID: m.id, Receipt: m.deadline}
	switch s.roll(12) {
	case 0:
		r.Op = history.Nack
		s.call(process, r, func(end *history.Record) history.Phase { return s.nack(m.id, m.deadline, end) }, s.nothing)
	case 1:
		r.Op = history.Release
		s.call(process, r, func(*history.Record) history.Phase { return s.release(m.id, m.deadline) }, s.nothing)
	case 2:
		r.Op, r.Receipt, r.Was, r.Lease = history.Extend, 0, m.deadline, 100+s.rnd.Int64N(300)
		s.call(process, r, func(end *history.Record) history.Phase { return s.extend(m.id, m.deadline, r.Lease, end) }, func(end history.Record) {
			if end.Phase == history.OK {
				m.deadline = end.Receipt
			}
			s.after(s.between(1, 200), func() { s.settle(process, m) })
		})
	case 3: // leaves it
	case 4:
		s.after(s.between(simLease-20, simLease+20), func() { s.settle(process, m) })
	case 5:
		r.Op = history.Bury
		s.call(process, r, func(*history.Record) history.Phase { return s.bury(m.id, m.deadline) }, func(history.Record) {
			s.after(s.between(1, 100), func() { s.requeue(process, m) })
		})
	default:
		s.call(process, r, func(*history.Record) history.Phase { return s.ack(m.id, m.deadline) }, s.nothing)
	}
}

func (s *sim) bury(id string, receipt int64) history.Phase {
	m, mine := s.held(id, receipt)
	if !mine {
		return history.No
	}
	m.place, m.used = "dead", m.used+1
	s.redis.messages[id] = m
	return history.OK
}

func (s *sim) requeue(process string, m simMessage) {
	s.call(process, history.Record{Op: history.Requeue, Topic: m.topic, ID: m.id}, func(*history.Record) history.Phase {
		now, there := s.redis.messages[m.id]
		if !there || now.place != "dead" {
			return history.No
		}
		now.place, now.used, now.due = "ready", 0, s.clock()
		if now.ttl > 0 {
			now.expiry = now.due + now.ttl
		}
		s.redis.messages[m.id] = now
		return history.OK
	}, s.nothing)
}

// subscriber claims and settles without records; only its handlers are recorded.
func (s *sim) subscriber(process string) {
	if s.dead[process] {
		return
	}
	s.after(s.between(1, simAhead), func() { s.subscriber(process) })
	sent := s.now
	for _, m := range s.lease("handled", 2) {
		if s.roll(20) == 0 { // it is busy
			s.after(s.between(1, 50), func() { s.release(m.id, m.deadline) })
			continue
		}
		s.after(s.between(0, 5), func() {
			if !s.dead[process] && s.now-sent < simLease*1000 {
				s.handle(process, m, s.between(1, 10), func() {})
			}
		})
	}
}

// inTurn is a worker of concurrency 1.
func (s *sim) inTurn(process string) {
	if s.dead[process] {
		return
	}
	again := func() { s.inTurn(process) }
	if got := s.lease("ordered", 1); len(got) > 0 {
		s.handle(process, got[0], s.rnd.Int64N(1000), again)
	} else {
		s.after(s.between(1, simAhead), again)
	}
}

// handle runs a handler, which may be slow or fail, and then calls then.
func (s *sim) handle(process string, m simMessage, took int64, then func()) {
	s.last[process]++
	r := taken(m, history.Record{Op: history.Handle, N: s.last[process], Phase: history.Call})
	s.write(process, r)
	if m.topic != "ordered" && s.roll(10) == 0 {
		took = s.between(simLease, 3*simLease)
	}
	end := history.Record{Op: history.Handle, N: r.N, Topic: m.topic, ID: m.id, Phase: history.OK}
	if s.roll(10) == 0 {
		end.Phase = history.No
	}
	receipt, lost, done := m.deadline, false, false
	var extend func()
	extend = func() {
		if s.dead[process] || lost || done {
			return
		}
		var reply history.Record
		if lost = s.extend(m.id, receipt, simLease, &reply) != history.OK; !lost {
			receipt = reply.Receipt
		}
		s.after(simLease*1000/3, extend)
	}
	s.after(simLease*1000/3, extend)
	s.after(took, func() {
		if s.dead[process] {
			return
		}
		if lost {
			end.Phase = history.Unknown
		}
		s.write(process, end)
		s.after(s.between(0, 2), func() {
			done = true
			switch {
			case s.dead[process] || lost || s.kinds > 0 && s.roll(30) == 0 && !s.quiet:
			case end.Phase == history.OK:
				s.ack(m.id, receipt)
			default:
				s.nack(m.id, receipt, &history.Record{})
			}
			then()
		})
	})
}

// listener receives the log from its position.
func (s *sim) listener(process string) {
	at := int64(0)
	if n := len(s.redis.log); n > 0 {
		at = s.redis.log[n-1].Position
	}
	s.event(process, history.Record{Op: history.Listen, Listener: "all", Pattern: ">", Position: at})
	var look func()
	look = func() {
		if s.dead[process] {
			return
		}
		s.after(s.between(1, 10), look)
		for _, e := range s.redis.log {
			if e.Position > at {
				s.receive(process, history.Record{Op: history.Receive, Listener: "all", Topic: e.Topic, ID: e.ID, Position: e.Position})
				at = e.Position
			}
		}
	}
	s.after(0, look)
}

func (s *sim) receive(process string, r history.Record) {
	s.last[process]++
	r.N, r.Phase = s.last[process], history.Call
	s.write(process, r)
	r.Phase = history.OK
	s.write(process, r)
}

// named is a process of a named listener, which shares the log with the others.
func (s *sim) named(process string) {
	s.event(process, history.Record{Op: history.Listen, Listener: "desk", Name: "desk", Pattern: "news", Count: 1})
	var look func()
	look = func() {
		if s.dead[process] {
			return
		}
		s.after(s.between(1, 10), look)
		for _, e := range s.redis.log[:s.redis.place] {
			if until, held := s.redis.held[e.ID]; held && until <= s.clock() {
				s.redis.tries[e.ID]++
				s.handleAs(process, e)
			}
		}
		if s.redis.place < len(s.redis.log) {
			s.redis.place++
			s.handleAs(process, s.redis.log[s.redis.place-1])
		}
	}
	s.after(0, look)
}

func (s *sim) handleAs(process string, e history.Entry) {
	life := s.lives
	s.redis.held[e.ID] = s.clock() + simLease
	attempt := 1 + s.redis.tries[e.ID]
	s.after(s.between(1, 3), func() {
		s.receive(process, history.Record{
			Op: history.Receive, Listener: "desk", Name: "desk", Topic: e.Topic, ID: e.ID, Position: e.Position, Attempt: attempt,
		})
		if !s.dead[process] && s.lives == life {
			delete(s.redis.held, e.ID)
		}
	})
}

// disturb makes a fault, and later another one.
func (s *sim) disturb() {
	if s.quiet || s.kinds == 0 {
		return
	}
	s.after(s.between(100, 600), s.disturb)
	s.last["harness"]++
	fault := history.Record{Op: history.Fault, N: s.last["harness"], Phase: history.Call}
	heal := func(history.Record) {}
	took := s.between(1, 100)
	switch s.roll(s.kinds) {
	case 0:
		fault.Kind, heal = "kill", s.kill(&fault)
	case 1:
		fault.Kind, fault.Loss = "power", simLoss
		s.powerCut()
	default:
		fault.Kind, fault.Offset = "clock", (1+s.rnd.Int64N(1000))*int64(1-2*s.roll(2))
		before := s.offset
		s.offset = fault.Offset
		heal = func(history.Record) { s.offset = before }
		fault.Offset += before
		s.offset = fault.Offset
	}
	s.write("harness", fault)
	fault.Phase = history.OK
	s.write("harness", fault)
	s.after(took, func() { s.healed(fault, heal) })
}

// healed heals a fault. The clock's offset stays.
func (s *sim) healed(fault history.Record, heal func(history.Record)) {
	heal(fault)
	r := history.Record{Op: history.Heal, N: fault.N, Kind: fault.Kind, Phase: history.Call}
	if fault.Kind == "clock" {
		r.Offset = s.offset
	}
	s.write("harness", r)
	r.Phase = history.OK
	s.write("harness", r)
}

// kill ends a process; its heal starts another one like it.
func (s *sim) kill(fault *history.Record) func(history.Record) {
	roles := map[string]func(string){"w": s.claimer, "s": s.subscriber, "p": s.publisher, "l": s.listener, "n": s.named, "o": s.inTurn}
	var living []string
	for process := range s.last {
		if roles[process[:1]] != nil && !s.dead[process] {
			living = append(living, process)
		}
	}
	slices.Sort(living)
	victim := living[s.roll(len(living))]
	fault.Target = victim
	s.event("harness", history.Record{Op: history.Kill, Target: victim})
	s.dead[victim] = true
	return func(history.Record) { roles[victim[:1]](victim + "'") }
}

// powerCut makes Redis forget some confirmed operations.
func (s *sim) powerCut() {
	s.lives++
	oldest := s.now - s.rnd.Int64N(simLoss*1000)
	for _, old := range slices.Backward(s.snapshots) {
		if old.at <= oldest && old.at >= s.now-simLoss*1000 {
			s.redis = old.clone()
			break
		}
	}
	s.snapshots = append(s.snapshots, snapshot{s.now, s.redis.clone()})
}

// final returns the contents of Redis.
func (s *sim) final() history.Final {
	f := empty()
	set := func(topics map[string]map[string]int64, m simMessage, member string, at int64) {
		if topics[m.topic] == nil {
			topics[m.topic] = make(map[string]int64)
		}
		topics[m.topic][member] = at
	}
	for _, m := range s.redis.messages {
		member := m.topic + ":" + m.id
		f.Records = append(f.Records, member)
		switch m.place {
		case "scheduled":
			set(f.Scheduled, m, member, m.due)
			if head, known := f.Heads[m.topic]; !known || m.due < head {
				f.Heads[m.topic] = m.due
			}
		case "ready":
			set(f.Ready, m, member, m.due)
			if first, known := f.ReadySet[m.topic]; !known || m.due < first {
				f.ReadySet[m.topic] = m.due
			}
		case "dead":
			set(f.Dead, m, member, m.due)
			f.Deaths = append(f.Deaths, member)
		case "leased":
			f.Leased[member] = m.deadline
			f.Leases[m.topic]++
		case "broadcasts":
			f.Broadcasts[member] = m.due
			f.Waiting[m.topic]++
		}
	}
	f.Logs, f.Now = s.redis.log, s.clock()
	return f
}
