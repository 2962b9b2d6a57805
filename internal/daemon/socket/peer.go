package socket

import (
	"encoding/binary"
	"net"
	"slices"
	"syscall"
	"unsafe"
)

// peer identifies the process that connected (unix(7), SO_PEERCRED).
type peer struct {
	pid, uid, gid int
	groups        []int
}

// credentials returns the peer of a connection, as the kernel reports it.
func credentials(conn *net.UnixConn) (peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{pid: -1, uid: -1, gid: -1}, err
	}
	var p peer
	var failed error
	err = raw.Control(func(fd uintptr) {
		var c *syscall.Ucred
		if c, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); failed != nil {
			return
		}
		p = peer{pid: int(c.Pid), uid: int(c.Uid), gid: int(c.Gid)}
		p.groups, failed = peerGroups(fd)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return peer{pid: -1, uid: -1, gid: -1}, err
	}
	return p, nil
}

// peerGroups returns the supplementary groups of a peer (SO_PEERGROUPS, Linux 4.13), or none if
// the kernel does not support that.
func peerGroups(fd uintptr) ([]int, error) {
	const soPeerGroups = 59 // asm-generic/socket.h
	const maxGroups = 65536 // limits.h, NGROUPS_MAX
	for size := uint32(64 * 4); ; {
		buffer := make([]byte, size)
		_, _, errno := syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, syscall.SOL_SOCKET, soPeerGroups,
			uintptr(unsafe.Pointer(&buffer[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == syscall.ERANGE && int(size) > len(buffer) && size <= maxGroups*4:
			continue
		case errno == syscall.ENOPROTOOPT:
			return nil, nil
		case errno != 0:
			return nil, errno
		}
		var groups []int
		for b := range slices.Chunk(buffer[:size], 4) {
			groups = append(groups, int(binary.NativeEndian.Uint32(b)))
		}
		return groups, nil
	}
}

// allows reports whether the configured owner and mode admit the peer. The kernel checks the
// socket file only when a client connects. This check also holds if the file was changed, or the
// connection was passed to another process.
func (s *Server) allows(p peer) bool {
	const ownerWrites, groupWrites, othersWrite = 0o200, 0o020, 0o002
	mode := s.options.Permissions
	switch {
	case p.uid == 0:
		return true
	case p.uid == s.uid:
		return mode&ownerWrites != 0
	case p.gid == s.gid, slices.Contains(p.groups, s.gid):
		return mode&groupWrites != 0
	}
	return mode&othersWrite != 0
}
