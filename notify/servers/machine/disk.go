package machine

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bellhopd/bellhop/notify/servers/redisserver"
)

// ballast is the file that fills the disk.
const ballast = "ballast"

// FillDisk fills the disk to the last byte, until FreeDisk. A Redis with appendfsync always
// then ends itself at its next write, and must be restarted when the disk is free; one with
// everysec refuses writes meanwhile.
func (m *Machine) FillDisk() error {
	file, err := os.OpenFile(filepath.Join(m.Disk(), ballast), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("fill a disk: %w", err)
	}
	defer file.Close()
	for size := int64(0); ; {
		var fs unix.Statfs_t
		if err := unix.Fstatfs(int(file.Fd()), &fs); err != nil {
			return fmt.Errorf("fill a disk: %w", err)
		}
		free := int64(fs.Bavail) * fs.Bsize
		if free == 0 {
			return nil
		}
		err := unix.Fallocate(int(file.Fd()), 0, size, free)
		switch {
		case err == nil:
			size += free
		case !errors.Is(err, unix.ENOSPC): // Redis may have written meanwhile
			return fmt.Errorf("fill a disk: %w", err)
		}
	}
}

// FreeDisk frees the space that FillDisk took.
func (m *Machine) FreeDisk() error {
	if err := os.Remove(filepath.Join(m.Disk(), ballast)); err != nil {
		return fmt.Errorf("free a disk: %w", err)
	}
	return nil
}

// PowerCut kills the redis-server, and removes from the disk what it had written but not
// synchronised. It returns the number of lost bytes. Restart starts the server again.
func (m *Machine) PowerCut(s *redisserver.Server) (lost int64, err error) {
	s.Kill()
	synced, err := m.synced()
	if err != nil {
		return 0, fmt.Errorf("cut the power: %w", err)
	}
	var left strings.Builder
	disk := m.Disk()
	err = filepath.WalkDir(disk, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == ballast {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		own := m.data + strings.TrimPrefix(path, disk)
		size := min(info.Size(), synced[own])
		lost += info.Size() - size
		fmt.Fprintf(&left, "%d %s\n", size, own)
		return os.Truncate(path, size)
	})
	if err == nil {
		err = os.WriteFile(m.syncs, []byte(left.String()), 0o600)
	}
	if err != nil {
		return lost, fmt.Errorf("cut the power: %w", err)
	}
	return lost, nil
}

// synced returns the synchronised size of each file.
func (m *Machine) synced() (map[string]int64, error) {
	file, err := os.Open(m.syncs)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sizes := make(map[string]int64)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		size, path, _ := strings.Cut(lines.Text(), " ")
		if size == ">" {
			from, to, _ := strings.Cut(path, "\t")
			sizes[to] = sizes[from]
			delete(sizes, from)
			continue
		}
		if sizes[path], err = strconv.ParseInt(size, 10, 64); err != nil {
			return nil, fmt.Errorf("%s: %w", m.syncs, err)
		}
	}
	return sizes, lines.Err()
}
