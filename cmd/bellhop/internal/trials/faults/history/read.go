package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Suffix is the ending of the names of history files.
const Suffix = ".jsonl"

// ReadDir reads all history files of a folder and merges them by time.
func ReadDir(dir string) ([]Record, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+Suffix))
	if err != nil {
		return nil, err
	}
	var all []Record
	for _, path := range paths {
		records, err := ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, records...)
	}
	slices.SortStableFunc(all, func(a, b Record) int { return cmp.Compare(a.At, b.At) })
	return all, nil
}

// ReadFile reads a history file. It ignores an incomplete last line, left by a killed
// process; any other malformed line is an error.
func ReadFile(path string) ([]Record, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	defer file.Close()
	records, err := Read(file)
	if err != nil {
		return nil, fmt.Errorf("read history %s: %w", path, err)
	}
	return records, nil
}

// Read is ReadFile for an open file.
func Read(from io.Reader) ([]Record, error) {
	var records []Record
	lines := bufio.NewReader(from)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return records, nil // an incomplete last line is ignored
		}
		if err != nil {
			return nil, err
		}
		r, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		records = append(records, r)
	}
}

func parse(line []byte) (Record, error) {
	var r Record
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return r, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("more than one record in a line")
	}
	return r, r.check()
}
