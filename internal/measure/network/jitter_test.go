package network

import (
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// delayOnRouter delays each packet to the peer by 6 to 14 ms, as netem's "delay 10ms 4ms" does: the
// router sends it to a tunnel device, whose other end is this program.
func (l *lab) delayOnRouter() {
	l.t.Helper()
	var tun *os.File
	inNamespace(l.t, "router", func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq("delay")
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			return err
		}
		tun = os.NewFile(uintptr(fd), "tun") // the device must be there when the runtime polls it
		return nil
	})
	l.t.Cleanup(func() { tun.Close() })
	l.do(`ip -n router link set delay up; ip -n router rule add iif rc lookup 9; ip -n router route add 10.9.2.0/24 dev delay table 9
ip netns exec router sh -ec 'mount -t proc proc /proc; for d in all delay; do echo 0 >/proc/sys/net/ipv4/conf/$d/rp_filter; done'`)
	go func() {
		for {
			p := make([]byte, 2048)
			n, err := tun.Read(p)
			if err != nil {
				return
			}
			delay := 6*time.Millisecond + rand.N(8*time.Millisecond)
			time.AfterFunc(delay, func() { _, _ = tun.Write(p[:n]) })
		}
	}()
}

// TestJitterOnBusyMachine: the jitter of a path is found while other programs want all processors.
// The truth is what the kernel captures about the same packets at both devices.
func TestJitterOnBusyMachine(t *testing.T) {
	testkitroot.Nightly(t, "30 s of probes")
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true, Binds: []testkitroot.Bind{{Source: "/dev/net/tun", Target: "/dev/net/tun"}}}) {
		return
	}
	l := newLab(t)
	l.delayOnRouter()
	atClient, atPeer := captureOn(t, "", "c"), captureOn(t, "peer", "p")
	c := l.dial(t, peer4)
	for range 2 {
		spin := exec.Command("sh", "-c", "while :; do :; done")
		if err := spin.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = spin.Process.Kill(); _ = spin.Wait() }()
	}
	for range 10 {
		train, err := c.probes(t.Context(), 3*time.Second, 10*time.Millisecond, DefaultSize)
		if err != nil {
			t.Fatal(err)
		}
		truth := truthOf(atClient.packets(), atPeer.packets()).trains[train.id]
		up, down := train.up.JitterS, train.down.JitterS
		t.Logf("to the peer %.4g ms, truth %.4g ms; from the peer %.4g ms, truth %.4g ms", up*1e3, truth[jitterUp]*1e3, down*1e3, truth[jitterDown]*1e3)
		if math.Abs(up/truth[jitterUp]-1) > 0.02 || math.Abs(down-truth[jitterDown]) > 1e-4 || max(train.unstampedHere, train.unstampedPeer) > 0 {
			t.Errorf("jitter to the peer %.4g ms, truth %.4g ms; from the peer %.4g ms, truth %.4g ms; %.2f of the probes and %.2f of the replies have no time of the kernel",
				up*1e3, truth[jitterUp]*1e3, down*1e3, truth[jitterDown]*1e3, train.unstampedHere, train.unstampedPeer)
		}
	}
}
