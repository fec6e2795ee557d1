package history

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A Log is the history of one process. It is safe for concurrent use.
type Log struct {
	process string
	file    *os.File
	last    atomic.Int64 // number of an operation

	mu  sync.Mutex
	err error // the first one
}

// Open opens a history file in order to append the records of a process.
func Open(path, process string) (*Log, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	return &Log{process: process, file: file}, nil
}

// Event records an event. Here and elsewhere the log sets At and Process.
func (l *Log) Event(r Record) { l.write(r) }

// Call records that an operation begins. Call it right before the operation.
func (l *Log) Call(r Record) *Operation {
	o := &Operation{log: l, call: r}
	o.call.N, o.call.Phase = l.last.Add(1), Call
	l.write(o.call)
	return o
}

// Close closes the file and returns the first error of writing it.
func (l *Log) Close() error {
	err := l.file.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	return err
}

// Err returns the first error of writing so far. With an error the history proves nothing.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// write appends a record with one write.
func (l *Log) write(r Record) {
	r.At, r.Process = time.Now().UnixMicro(), l.process
	err := r.check()
	var line []byte
	if err == nil {
		line, err = json.Marshal(r)
	}
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = fmt.Errorf("write history of %s: %w", l.process, err)
	}
}

// An Operation is one that has begun and not ended yet.
type Operation struct {
	log  *Log
	call Record
}

// N returns the number of the operation in its process.
func (o *Operation) N() int64 { return o.call.N }

// Took records a claimed message, before the claim ends.
func (o *Operation) Took(r Record) {
	r.Op, r.Phase, r.N = Take, Event, o.call.N
	o.log.write(r)
}

// End records how the operation ended. r holds the reply; it need not repeat topic, id and
// what else identifies the operation.
func (o *Operation) End(phase Phase, r Record) {
	r.Op, r.Phase, r.N = o.call.Op, phase, o.call.N
	if r.Topic == "" {
		r.Topic, r.ID = o.call.Topic, o.call.ID
	}
	o.log.write(r)
}

// Heal records that the heal of the fault begins.
func (o *Operation) Heal() *Operation {
	heal := &Operation{log: o.log, call: Record{Op: Heal, Phase: Call, N: o.call.N, Kind: o.call.Kind, Target: o.call.Target}}
	o.log.write(heal.call)
	return heal
}
