package network

import (
	"encoding/binary"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/stats"
)

// capture records when the kernel sent and received the probes on a device. All namespaces of a
// lab have one clock.
type capture struct {
	t  *testing.T
	fd int
}

// packet is a captured probe or its reply.
type packet struct {
	train, seq uint32
	kind       byte
	out        bool // sent by the device
	at         time.Time
}

// captureOn captures on a device of a network namespace, "" for that of this process.
func captureOn(t *testing.T, namespace, device string) *capture {
	t.Helper()
	fd := -1
	inNamespace(t, namespace, func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(swap16(unix.ETH_P_ALL))); err != nil {
			return err
		}
		ifreq, err := unix.NewIfreq(device)
		if err == nil {
			err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifreq)
		}
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: swap16(unix.ETH_P_ALL), Ifindex: int(ifreq.Uint32())})
		}
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
		}
		if err == nil { // the packets are read after the run
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 512<<20)
		}
		return err
	})
	t.Cleanup(func() { unix.Close(fd) })
	return &capture{t, fd}
}

func swap16(v uint16) uint16 { return v<<8 | v>>8 }

// inNamespace runs a function in a network namespace of ip netns.
func inNamespace(t *testing.T, name string, do func() error) {
	t.Helper()
	errs := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if name != "" {
			f, err := os.Open("/run/netns/" + name)
			if err == nil {
				defer f.Close()
				err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
			}
			if err != nil {
				errs <- err
				return
			}
		}
		errs <- do()
	}()
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
}

// packets returns what was captured since the last call, in the kernel's order.
func (c *capture) packets() (all []packet) {
	p, oob := make([]byte, 2048), make([]byte, 256)
	for {
		n, m, _, from, err := unix.Recvmsg(c.fd, p, oob, unix.MSG_DONTWAIT)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			break
		}
		link, is := from.(*unix.SockaddrLinklayer)
		const headers = 28 // IPv4 and UDP
		if !is || link.Protocol != swap16(unix.ETH_P_IP) || n < headers+probeSize || p[9] != unix.IPPROTO_UDP {
			continue
		}
		probe := p[headers:n]
		at, _ := arrival(oob[:m], time.Time{})
		all = append(all, packet{train: binary.BigEndian.Uint32(probe[atTrain:]), seq: binary.BigEndian.Uint32(probe[atSeq:]), kind: probe[atKind],
			out: link.Pkttype == unix.PACKET_OUTGOING, at: at})
	}
	slices.SortStableFunc(all, func(a, b packet) int { return a.at.Compare(b.at) })
	return all
}

// truth has the figures of the trains between two devices, computed from the captures on both.
type truth struct {
	sent    int
	figures map[string]Figure
	trains  map[uint32]sample
}

type probeID struct{ train, seq uint32 }

// truthOf computes the truth from the captures at the client's and at the peer's device.
func truthOf(client, peer []packet) truth {
	left, came, replied := map[probeID]time.Time{}, map[probeID]time.Time{}, map[probeID]time.Time{}
	sent, up, down, rtts := map[uint32]int{}, map[uint32]*way{}, map[uint32]*way{}, map[uint32][]float64{}
	for _, p := range client {
		if p.out && p.kind == echoProbe {
			left[probeID{p.train, p.seq}] = p.at
			sent[p.train]++
			up[p.train], down[p.train] = &way{}, &way{}
		}
	}
	for _, p := range peer {
		id := probeID{p.train, p.seq}
		switch {
		case !p.out && p.kind == echoProbe:
			up[p.train].take(p.seq, p.at.Sub(left[id]).Seconds())
			came[id] = p.at
		case p.out && p.kind == reply:
			replied[id] = p.at
		}
	}
	for _, p := range client {
		id := probeID{p.train, p.seq}
		if at, is := replied[id]; is && !p.out && p.kind == reply && down[p.train] != nil { // not of the path MTU
			down[p.train].take(p.seq, p.at.Sub(at).Seconds())
			rtts[p.train] = append(rtts[p.train], (p.at.Sub(left[id]) - at.Sub(came[id])).Seconds())
		}
	}
	values := map[string][]float64{}
	v := truth{sent: len(left), figures: map[string]Figure{}, trains: map[uint32]sample{}}
	for id, w := range up {
		r := w.report(0)
		v.trains[id] = sample{
			p50: stats.Median(rtts[id]), jitterUp: r.JitterS, jitterDown: down[id].report(0).JitterS,
			lossUp: 1 - float64(r.Received)/float64(sent[id]), orderUp: float64(r.Reordered) / float64(r.Received),
		}
		for name, value := range v.trains[id] {
			values[name] = append(values[name], value)
		}
	}
	for name, of := range values {
		v.figures[name] = figure(name, of)
	}
	return v
}
