package record

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// Limits of a message.
const (
	MaxTopic       = 128       // bytes of a topic
	MaxID          = 128       // bytes of an id
	MaxHeaders     = 64        // headers of a message
	MaxHeaderBytes = 8 << 10   // bytes of all header names and values of a message
	MostAttempts   = 1_000_000 // largest limit of attempts
	MaxWorkerName  = 64        // bytes of the name of a worker
	maxContentType = 255       // bytes of a content type
	MostBranches   = 16        // branches of a topic
	maxBranch      = 64        // bytes of the name of one
	maxSchedule    = 90        // bytes of the name of a schedule: the time of an occurrence comes behind it in an id
)

// nameGrammar is that of a token of RFC 9110.
var nameGrammar = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// DeadPrefix, and the name of a topic behind it, names the topic of the broadcasts that
// tell of its deaths: the only kind of name that begins with a $.
const DeadPrefix = "$dead."

// CheckTopic returns a Fault for an invalid topic, and for one of the system.
func CheckTopic(topic string) error {
	switch {
	case strings.HasPrefix(topic, "$"):
		return fault.New("topic", "topic %.200q: names that begin with $ are the system's; name a topic of your own, and listen to %sTOPIC to hear of its deaths", topic, DeadPrefix)
	case topic == "":
		return fault.New("topic", "topic: it is empty; name one, such as order.timeout")
	case len(topic) > MaxTopic:
		return fault.New("topic", "topic: %d bytes; at most %d are allowed", len(topic), MaxTopic)
	case !isTopic(topic) && !isBranch(topic):
		return fault.New("topic", "topic %q: use tokens of letters, digits, _ and -, joined by single dots", topic)
	}
	return nil
}

// isTopic reports whether a text matches ^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$. It is a loop,
// since several places check the topic and the id of each message.
func isTopic(text string) bool {
	begun := false // a token
	for i := range len(text) {
		if c := text[i]; c == '.' {
			if !begun {
				return false
			}
			begun = false
		} else if begun = isOfToken(c); !begun {
			return false
		}
	}
	return begun
}

// isBranch reports whether a text is TOPIC@BRANCH.
func isBranch(text string) bool {
	of, branch, is := strings.Cut(text, "@")
	return is && isTopic(of) && !strings.Contains(branch, ".") && isTopic(branch)
}

// SplitBranch returns the topic of a branch, TOPIC@NAME, and the name; any other topic is returned as it is, without one.
func SplitBranch(topic string) (of, name string) {
	of, name, _ = strings.Cut(topic, "@")
	return of, name
}

// PlaceOf returns what a topic is sorted by where its branches come right below it.
func PlaceOf(topic string) string { return strings.ReplaceAll(topic, "@", " ") }

// CheckBranches returns a Fault for a text that is no change of the branches of a topic: all names, joined by commas, or +NAME, or -NAME.
func CheckBranches(text string) error {
	names := strings.Split(text, ",")
	if name, one := strings.CutPrefix(text, "+"); one {
		names = []string{name}
	} else if name, one := strings.CutPrefix(text, "-"); one {
		names = []string{name}
	}
	for i, name := range names {
		switch {
		case text == "":
		case len(name) > maxBranch, !isTopic(name), strings.Contains(name, "."), name[0] == '-', len(names) > MostBranches:
			return fault.New("branches", "branches %.200q: use up to %d names of letters, digits, _ and -, at most %d bytes each, joined by commas, or +NAME, or -NAME", text, MostBranches, maxBranch)
		case slices.Contains(names[:i], name):
			return fault.New("branches", "branches %.200q: %s is named twice; name it once", text, name)
		}
	}
	return nil
}

// isOfToken reports whether a character is a letter, a digit, _ or -.
func isOfToken(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// CheckAnyTopic is CheckTopic, and accepts topics of the system, too: of these one may
// read, and nothing else.
func CheckAnyTopic(topic string) error {
	of, _ := strings.CutPrefix(topic, DeadPrefix)
	return CheckTopic(of)
}

// CheckTopics returns a joined Fault for each thing that is wrong with the topics of one
// claim.
func CheckTopics(topics []string) error { return checkEach(topics, CheckTopic) }

// CheckPatterns is CheckTopics, and accepts patterns of topics, but those of the system.
func CheckPatterns(topics []string) error { return checkEach(topics, checkOrdinary) }

// checkOrdinary returns a Fault for an invalid topic or pattern, and for one of the system.
func checkOrdinary(text string) error {
	if strings.HasPrefix(text, "$") {
		return CheckTopic(text)
	}
	_, err := ParsePattern(text)
	return err
}

// checkEach returns a joined Fault for each thing that is wrong with some topics.
func checkEach(topics []string, check func(string) error) error {
	switch {
	case len(topics) == 0:
		return fault.New("topics", "topics: there are none; name 1 to %d", MaxTopics)
	case len(topics) > MaxTopics:
		return fault.New("topics", "topics: there are %d; name at most %d", len(topics), MaxTopics)
	}
	var faults []error
	times := make(map[string]int)
	for _, topic := range topics {
		if times[topic]++; times[topic] == 1 {
			faults = append(faults, fault.Renamed("topics", check(topic)))
		} else if times[topic] == 2 {
			faults = append(faults, fault.New("topics", "topics: %.100q is named twice; name it once", topic))
		}
	}
	return errors.Join(faults...)
}

// AllTopics is the name for the settings of a store. It is no topic.
const AllTopics = "*"

// CheckTopicOrAll is CheckTopic, and accepts AllTopics, too.
func CheckTopicOrAll(topic string) error {
	if topic == AllTopics {
		return nil
	}
	return CheckTopic(topic)
}

// CheckID returns a Fault for an invalid id.
func CheckID(id string) error {
	switch {
	case id == "":
		return fault.New("id", "id: it is empty")
	case len(id) > MaxID:
		return fault.New("id", "id: %d bytes; at most %d are allowed", len(id), MaxID)
	case !isID(id), id == ".", id == "..":
		return fault.New("id", "id %q: use letters, digits and . _ ~ : -, but not . or .. alone, which no URL can name", id)
	}
	return nil
}

// isID reports whether a text matches ^[A-Za-z0-9._~:-]+$.
func isID(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isOfToken(c) && c != '.' && c != '~' && c != ':' {
			return false
		}
	}
	return text != ""
}

// Member returns the name that a message has everywhere in Redis, TOPIC:ID.
func Member(topic, id string) string { return topic + ":" + id }

// SplitMember splits a member at its first colon, since a topic has none. The error
// is a Fault.
func SplitMember(member string) (topic, id string, err error) {
	topic, id, ok := strings.Cut(member, ":")
	if !ok {
		return "", "", fault.New("member", "member %.300q: it has no colon; a member is TOPIC:ID", member)
	}
	if err := CheckAnyTopic(topic); err != nil {
		return "", "", fmt.Errorf("member %.300q: %w", member, err)
	}
	if err := CheckID(id); err != nil {
		return "", "", fmt.Errorf("member %.300q: %w", member, err)
	}
	return topic, id, nil
}

// groupGrammar is that of the name of a group.
var groupGrammar = regexp.MustCompile(`^[A-Za-z0-9._:-][A-Za-z0-9._~:-]{0,127}$`)

// SplitGroup splits TOPIC:GROUP, by which a message names the group that it waits for. The error is a Fault.
func SplitGroup(text string) (topic, group string, err error) {
	topic, group, _ = strings.Cut(text, ":")
	if of, branch := SplitBranch(topic); branch != "" {
		return "", "", fault.New("after_group", "after_group %.300q: a branch has no groups of its own, its messages are in those of %s; write %[2]s:GROUP", text, of)
	}
	if CheckTopic(topic) != nil || !groupGrammar.MatchString(group) {
		return "", "", fault.New("after_group", "after_group %.300q: write TOPIC:GROUP, such as row.import:import-7", text)
	}
	return topic, group, nil
}

// CheckHeaders returns a Fault for invalid headers of a message.
func CheckHeaders(headers map[string]string) error {
	if len(headers) > MaxHeaders {
		return fault.New("headers", "headers: %d of them; at most %d are allowed", len(headers), MaxHeaders)
	}
	size := 0
	names := make(map[string]string, len(headers)) // by their lower case
	for name, value := range headers {
		size += len(name) + len(value)
		if err := CheckHeader(name, value); err != nil {
			return err
		}
		lower := strings.ToLower(name)
		if other, twice := names[lower]; twice {
			return fault.New("headers", "headers %.100s and %.100s: names are equal without regard to case; give one of them", min(name, other), max(name, other))
		}
		names[lower] = name
	}
	if size > MaxHeaderBytes {
		return fault.New("headers", "headers: %d bytes in all; at most %d are allowed", size, MaxHeaderBytes)
	}
	return nil
}

// CheckListener returns a Fault for an invalid name of a listener.
func CheckListener(name string) error {
	if CheckTopic(name) != nil || strings.Contains(name, "@") {
		return fault.New("name", "name %.200q: use tokens of letters, digits, _ and -, joined by single dots, at most %d bytes", name, MaxTopic)
	}
	return nil
}

// CheckWorker returns a Fault of a field for a name that no worker can have: it stands
// between spaces, and - for nobody.
func CheckWorker(field, name string) error {
	isWrong := func(r rune) bool { return r <= ' ' || r > '~' }
	if name == "" || name == Unknown || len(name) > MaxWorkerName || strings.ContainsFunc(name, isWrong) {
		return fault.New(field, "%s %.100q: use 1 to %d letters, digits or other signs of ASCII, without spaces, and not - alone", field, name, MaxWorkerName)
	}
	return nil
}

// looksMade is how the ids of occurrences end.
var looksMade = regexp.MustCompile(`~\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)

// CheckScheduleName returns a Fault for the name of a schedule that is not to be.
func CheckScheduleName(name string) error {
	switch {
	case len(name) > maxSchedule:
		return fault.New("name", "name: %d bytes; at most %d are allowed, since an occurrence has its time behind it in its id", len(name), maxSchedule)
	case looksMade.MatchString(name):
		return fault.New("name", "name %s: it ends like the id of an occurrence; leave the time out", name)
	}
	return fault.Renamed("name", CheckID(name))
}

// CheckContentType returns a Fault for an invalid content type; empty is valid.
func CheckContentType(text string) error {
	if len(text) > maxContentType || !printable(text) {
		return fault.New("content_type", "content type %.100q: use printable text of at most %d bytes", text, maxContentType)
	}
	return nil
}

// CheckHeader returns a Fault for an invalid header of a message.
func CheckHeader(name, value string) error {
	if !nameGrammar.MatchString(name) {
		return fault.New("headers", "header name %.100q: use letters, digits and the signs !#$%%&'*+.^_`|~-", name)
	}
	if !printable(value) {
		return fault.New("headers", "header %.100s: its value is not printable UTF-8 text", name)
	}
	return nil
}

// printable reports whether s is UTF-8 without control characters.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
