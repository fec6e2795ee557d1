package calendar

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A set is a set of small numbers: bit n is set if n is in it.
type set uint64

func (s set) has(n int) bool { return s>>n&1 == 1 }

// from returns the least number in the set that is n or more; 64 if there is none.
func (s set) from(n int) int { return bits.TrailingZeros64(uint64(s >> n << n)) }

// A kind is what is the same for each field of cron at a place.
type kind struct {
	words       string
	least, most int
	names       []string // of least and the following, in lower case
}

// The places of the fields.
const (
	seconds = iota
	minutes
	hours
	days
	months
	weekdays
	places
)

var kinds = [places]kind{
	{words: "second", most: 59},
	{words: "minute", most: 59},
	{words: "hour", most: 23},
	{words: "day of the month", least: 1, most: 31},
	{words: "month", least: 1, most: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{words: "day of the week", most: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// span returns how many different numbers there are of a kind.
func (k kind) span() int {
	if k.names != nil {
		return len(k.names)
	}
	return k.most - k.least + 1
}

// all returns the set of all numbers of a kind.
func (k kind) all() (all set) {
	for n := range k.span() {
		all |= 1 << (k.least + n)
	}
	return all
}

// nicknames are the rules that have a name.
var nicknames = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *",
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

// longest is how many days a month has at the most.
var longest = [...]int{time.January: 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// maxCron is how many bytes a rule may have: 60 numbers in each field are fewer.
const maxCron = 512

// A cron is a rule of fields in a zone.
type cron struct {
	fields [places]set
	flows  bool // there is a * in its minutes or its hours: it fires whenever the wall clock shows a time of it
	zone   *time.Location
}

// parseCron reads the fields of a rule. The error is a Fault.
func parseCron(text string) (*cron, error) {
	text = strings.TrimSpace(text)
	refuse := func(format string, args ...any) error {
		return fault.New("cron", "cron %.100q: %w", text, fmt.Errorf(format, args...))
	}
	if len(text) > maxCron {
		return nil, refuse("it has %d bytes, and %d are possible; write ranges as 0-30", len(text), maxCron)
	}
	if strings.HasPrefix(text, "@") {
		fields := nicknames[strings.ToLower(text)]
		if fields == "" {
			return nil, refuse("this is no name of a rule; use @hourly, @daily, @weekly, @monthly or @yearly, the fields, or every for a pause")
		}
		text = fields
	}
	parts := strings.Fields(text)
	if len(parts) == places-1 {
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != places {
		return nil, refuse("it has %d fields; write minute, hour, day of the month, month and day of the week, or the second before them", len(parts))
	}
	var c cron
	for i, part := range parts {
		s, err := parseField(kinds[i], part)
		if err != nil {
			return nil, refuse("%w", err)
		}
		c.fields[i] = s
	}
	c.flows = strings.Contains(parts[minutes]+parts[hours], "*")
	if err := c.checkDays(); err != nil {
		return nil, refuse("%w", err)
	}
	return &c, nil
}

// checkDays returns why there is no day, or a doubt which.
func (c *cron) checkDays() error {
	if c.fields[days] != kinds[days].all() && c.fields[weekdays] != kinds[weekdays].all() {
		return fmt.Errorf("it names days of the month and days of the week, and cron(8) would fire on either; write * in one of the fields, and a second schedule for the other")
	}
	first, most := c.fields[days].from(0), 0
	for month := c.fields[months].from(0); month <= int(time.December); month = c.fields[months].from(month + 1) {
		most = max(most, longest[month])
	}
	if first > most {
		return fmt.Errorf("it never fires: its months have at most %d days; name a day up to that", most)
	}
	return nil
}

// parseField reads a field, a list.
func parseField(k kind, text string) (all set, err error) {
	for item := range strings.SplitSeq(text, ",") {
		s, err := parseItem(k, item)
		if err != nil {
			return 0, fmt.Errorf("%s %.40q: %w", k.words, item, err)
		}
		all |= s
	}
	if k.most == 7 && all.has(7) { // Sunday has two numbers
		all = all&^(1<<7) | 1
	}
	return all, nil
}

// parseItem reads an item of a field: *, N or N-M, perhaps with /STEP.
func parseItem(k kind, item string) (s set, err error) {
	text, by, stepped := strings.Cut(item, "/")
	low, high, ranged := strings.Cut(text, "-")
	first, last := k.least, k.least+k.span()-1
	if text != "*" {
		if first, err = k.number(low); err != nil {
			return 0, err
		}
		if last = first; ranged {
			if last, err = k.number(high); err != nil {
				return 0, err
			}
		} else if stepped {
			return 0, fmt.Errorf("a step needs a range; write %s-%d/%s", low, k.least+k.span()-1, by)
		}
		if last < first {
			return 0, fmt.Errorf("the range ends before it begins; write it as two, the second from %d", k.least)
		}
	}
	step := 1
	if stepped {
		if step, err = strconv.Atoi(by); err != nil || step < 1 || step > k.span() {
			return 0, fmt.Errorf("the step is to be a number from 1 to %d; for longer pauses use every", k.span())
		}
	}
	for n := first; n <= last; n += step {
		s |= 1 << n
	}
	return s, nil
}

// number reads a number, or a name.
func (k kind) number(text string) (int, error) {
	if i := slices.Index(k.names, strings.ToLower(text)); i >= 0 {
		return k.least + i, nil
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || int(n) < k.least || int(n) > k.most {
		or := ""
		if k.names != nil {
			or = fmt.Sprintf(", or %s-%s", strings.ToUpper(k.names[0]), strings.ToUpper(k.names[len(k.names)-1]))
		}
		return 0, fmt.Errorf("use %d-%d%s, a list of them, or *", k.least, k.most, or)
	}
	return int(n), nil
}
