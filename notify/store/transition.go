package store

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua
var luaFiles embed.FS

// A transition is a script: one change of what a shard holds, or one read of it.
// Its source is lua/NAME.lua. It is linked when it first runs, so that a program
// that runs none starts fast.
type transition struct {
	name     string // for Store.Observe
	promised bool   // its answer is a promise, which Config.WaitReplicas replicas must confirm
	grows    bool   // it makes Redis hold more, and is refused before Redis is full

	linked func(variant) linked
}

// option changes a transition.
type option func(*transition)

// promised marks a transition whose answer, such as that a message is published or
// acknowledged, waits for Config.WaitReplicas replicas.
func promised(t *transition) { t.promised = true }

// grows marks a transition that is refused as a whole: with ErrFull when Redis is
// full or nearly so, and with ErrUnfit while Redis may evict messages. All others
// run even when Redis is out of memory, since they must not stop half way: moving,
// acknowledging and removing frees more memory than it takes.
func grows(t *transition) { t.grows = true }

// script returns the transition of lua/NAME.lua. [Store.Observe] reports
// lua/repair/places.lua as repair-places.
func script(name string, options ...option) *transition {
	t := &transition{name: strings.ReplaceAll(name, "/", "-")}
	for _, o := range options {
		o(t)
	}
	t.linked = eachVariant(func(v variant) linked { return linkFile("lua/"+name+".lua", t.grows, v) })
	return t
}

// linked is a script as Redis runs it, and the keys and arguments that it needs.
type linked struct {
	flagged, plain *redis.Script // for Redis, and for the embedded trial server, which knows no flags
	keys           []int         // indexes of rows of the table, in the order of KEYS
	key            bool          // behind them, a key that the caller chooses
	share, prefix  bool          // behind the script's own arguments
	variant        variant
}

func linkFile(file string, grows bool, v variant) linked {
	source, err := luaFiles.ReadFile(file)
	if err != nil {
		panic(err) // it is part of the program
	}
	shebang := "#!lua flags=allow-oom\n"
	if grows {
		shebang = "#!lua\n"
	}
	l := linked{variant: v}
	text := l.link(writtenOut(string(source), v))
	l.flagged, l.plain = redis.NewScript(shebang+text), redis.NewScript(text)
	return l
}

// sectionBreak is the line of a script that calls with little to do never reach.
const sectionBreak = "\n-- * * *\n"

// link returns a source behind the parts of the library that it uses, directly or
// through other parts, and records what the script needs. It adds no others, since
// each function that a script defines costs each of its calls some 0.1 us. Parts
// and keys that only the code behind a section break uses are put there, too. That
// code becomes a function: defining a function in it that uses an outer local costs
// less, since Lua then finds that local faster. Lua lets a function use 60 of these.
func (l *linked) link(source string) string {
	used, defined := make(map[string]bool), make(map[string]bool)
	text, ends := "", ""
	for section := range strings.SplitSeq(source, sectionBreak) {
		parts := use(used, defined, section, library(l.variant))
		if text != "" {
			text, ends = text+"\nreturn (function()\n", ends+"end)()\n"
		}
		text += l.named(used) + parts + section
	}
	return l.head(used) + text + ends
}

// named returns the code that names the keys that are used and have no name yet.
func (l *linked) named(used map[string]bool) string {
	var names []string
	for i, r := range table {
		if used[r.lua] && r.isGiven() && !slices.Contains(l.keys, i) {
			l.keys = append(l.keys, i)
			names = append(names, r.lua)
		}
	}
	if len(names) == 0 {
		return ""
	}
	first := len(l.keys) - len(names) + 2 // behind that of the format
	return fmt.Sprintf("local %s = unpack(KEYS, %d, %d)\n", strings.Join(names, ", "), first, first+len(names)-1)
}

// use returns the parts of the library that a section of a source uses and that are
// not defined in those before. It adds their words to used, and their names to
// defined unless they are inside a rare part.
func use(used, defined map[string]bool, section string, library []part) string {
	words := make(map[string]bool) // of the section and its parts
	add := func(more []string) {
		for _, word := range more {
			words[word] = true
		}
	}
	add(wordsOf(section))
	var parts []part
	for _, p := range slices.Backward(library) { // a part uses only those before it
		if p.isIn(words) && !p.isIn(defined) {
			add(p.words())
			parts = append(parts, p)
		}
	}
	slices.Reverse(parts)
	var b strings.Builder
	parts, inside := within(parts, wordsOf(section))
	maps.DeleteFunc(words, func(word string, _ bool) bool { return inside[word] })
	maps.Copy(used, words)
	for _, p := range parts {
		for _, name := range p.names {
			defined[name] = defined[name] || p.text != ""
		}
		b.WriteString(p.text)
	}
	return b.String()
}

// within moves parts that only a rare part uses inside it, so that only calls that
// reach the rare part define them. words are those of the source behind the parts.
// It returns the names of the keys that only rare parts use: these name them.
func within(parts []part, words []string) (moved []part, inside map[string]bool) {
	inside = make(map[string]bool)
	for i := range parts { // a rare part comes before those that use it: it takes its own along into them
		if !parts[i].isRare() || parts[i].text == "" {
			continue
		}
		var inner string
		outside, within := slices.Clone(words), slices.Clone(parts[i].words())
		for j := len(parts) - 1; j >= 0; j-- {
			if j < i && !slices.ContainsFunc(parts[j].names, func(name string) bool { return slices.Contains(outside, name) }) {
				inner = parts[j].text + inner
				within = append(within, parts[j].words()...)
				parts[j].text = ""
			} else if j != i {
				outside = append(outside, parts[j].words()...)
			}
		}
		first, rest, _ := strings.Cut(parts[i].text, "\n")
		parts[i].text = first + "\n" + namesOf(within, outside, inside) + inner + rest
	}
	return parts, inside
}

// namesOf returns the code inside a rare part that names the keys which it uses and
// nothing outside does, and adds these to inside. It makes them from the first key, so
// that calls which do not reach it need not have them.
func namesOf(within, outside []string, inside map[string]bool) string {
	var names, values []string
	for _, r := range table {
		if r.isGiven() && slices.Contains(within, r.lua) && !slices.Contains(outside, r.lua) {
			inside[r.lua] = true
			names, values = append(names, r.lua), append(values, r.begin())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("local BASE = string.sub(KEYS[1], 1, -%d)\nlocal %s = %s\n", len(formatName)+1, strings.Join(names, ", "), strings.Join(values, ", "))
}

// isIn reports whether a part is used.
func (p part) isIn(used map[string]bool) bool {
	return slices.ContainsFunc(p.names, func(name string) bool { return used[name] })
}

// head returns the code in front of each script. It ends the script if there is no
// store or one of another format, and names the key of the caller's choice. It takes the
// arguments that are not the script's own off the end of ARGV.
func (l *linked) head(used map[string]bool) string {
	var b strings.Builder
	b.WriteString("local STORE = redis.call('GET', KEYS[1])\n")
	fmt.Fprintf(&b, "if not STORE then return redis.error_reply('%s there is no store yet') end\n", signNoStore)
	if l.variant.sharded {
		fmt.Fprintf(&b, "local MARK = ARGV[#ARGV]\nARGV[#ARGV] = nil\nif string.sub(STORE, 1, #MARK) ~= MARK then return redis.error_reply('%s ' .. STORE) end\n", signFormat)
	} else {
		fmt.Fprintf(&b, "if string.sub(STORE, 1, %d) ~= '%s' then return redis.error_reply('%s ' .. STORE) end\n", len(formatMark), formatMark, signFormat)
	}
	b.WriteString("local call = redis.call\n")
	if used["BASE"] {
		fmt.Fprintf(&b, "local BASE = string.sub(KEYS[1], 1, -%d)\n", len(formatName)+1)
	}
	if l.key = used["KEY"]; l.key {
		fmt.Fprintf(&b, "local KEY = KEYS[%d]\n", len(l.keys)+2)
	}
	if l.prefix = used["PREFIX"]; l.prefix {
		b.WriteString("local PREFIX = ARGV[#ARGV]\nARGV[#ARGV] = nil\n")
	}
	if l.share = used["SHARE"]; l.share {
		b.WriteString("local SHARE = ARGV[#ARGV]\nARGV[#ARGV] = nil\n")
	}
	return b.String()
}

// run runs a transition once, and returns a cursor over its answer. It never repeats
// a call whose outcome is unknown. Errors: an ErrUnfit, a RightsError, an
// ErrUnreplicated if the transition is promised, or that of the connection.
func (s Shard) run(ctx context.Context, t *transition, args ...any) (*reply, error) {
	return s.runOn(ctx, t, nil, args...)
}

// repeat is run for a transition that may be carried out twice: for up to retryFor
// it repeats a call that Redis did not carry out.
func (s Shard) repeat(ctx context.Context, t *transition, args ...any) (*reply, error) {
	return retry(ctx, func() (*reply, error) { return s.run(ctx, t, args...) })
}

// runOn is run for a transition that works on a key of the caller's choice.
func (s Shard) runOn(ctx context.Context, t *transition, key func(Keys) string, args ...any) (*reply, error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return nil, err
	}
	return d.run(ctx, t, key, args)
}

// run is Shard.runOn. An Inbox among the arguments is sent as its channel.
func (d *shard) run(ctx context.Context, t *transition, key func(Keys) string, args []any) (*reply, error) {
	l := t.linked(d.variant())
	keys := make([]string, 0, 2+len(l.keys))
	keys = append(keys, d.keys.format)
	for _, i := range l.keys {
		keys = append(keys, d.keys.names[i])
	}
	if l.key {
		keys = append(keys, key(d.keys))
	}
	if d.inCluster() {
		keys = append(keys, d.keys.given()...)
	}
	for i, arg := range args {
		if inbox, is := arg.(Inbox); is {
			args[i] = d.inbox(inbox)
		}
	}
	if l.share {
		args = append(args, d.share)
	}
	if l.prefix {
		args = append(args, d.keys.public)
	}
	if l.variant.sharded {
		args = append(args, d.layout.mark())
	}
	values, err := d.call(ctx, t, l, keys, args)
	if err != nil {
		return nil, err
	}
	return &reply{name: t.name, values: values}, nil
}
