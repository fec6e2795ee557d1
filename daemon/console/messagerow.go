package console

import (
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// A messageRow is a message in a list, with the beginning of its body.
type messageRow struct{ notify.Info }

// Link returns the address of the page of the message.
func (m messageRow) Link() string { return messagePath(m.Topic, m.ID) }

// TopicLink returns the address of the page of its topic.
func (m messageRow) TopicLink() string { return topicPath(m.Topic) }

// About returns one short line about a message: why it died, or what is in it.
func (m messageRow) About() string {
	if m.State == notify.Dead {
		return brief(store.Headline(m.Reason))
	}
	return brief(string(m.Body))
}

// At returns the time that is told of a message: that by which lists sort it.
func (m messageRow) At() time.Time {
	switch m.State {
	case notify.Leased, notify.Done:
		return m.Until
	case notify.Dead:
		return m.Died
	}
	return m.Due
}

// rowsOf returns the messages of a list.
func rowsOf(infos []notify.Info) []messageRow {
	rows := make([]messageRow, len(infos))
	for i, info := range infos {
		info.Body = slices.Clone(info.Body[:min(len(info.Body), 4*briefly)]) // the rest would be kept as long as the row
		rows[i] = messageRow{info}
	}
	return rows
}
