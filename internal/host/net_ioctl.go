package host

import (
	"encoding/binary"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The ethtool ioctl commands (include/uapi/linux/ethtool.h), the only interface
// before Linux 5.6.
const (
	ioctlGetWake     = 0x5
	ioctlSetWake     = 0x6
	ioctlStrings     = 0x1b
	ioctlGetFeatures = 0x3a
	ioctlSetFeatures = 0x3b
	ioctlStringSets  = 0x37

	wakeWords     = 5  // cmd, supported, wolopts, 6 bytes of password
	featureSet    = 4  // ETH_SS_FEATURES
	stringLength  = 32 // ETH_GSTRING_LEN
	maxFeatureSet = 1024
)

func ioctlSocket() (int, error) {
	return unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
}

// ethtoolIoctl performs one SIOCETHTOOL request. words is the structure of the command;
// ethtoolIoctl sets its first word and returns the structure with the answer.
func ethtoolIoctl(device string, command uint32, words []uint32) ([]uint32, error) {
	fd, err := ioctlSocket()
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if len(device) >= unix.IFNAMSIZ {
		return nil, syscall.ENODEV
	}
	words[0] = command
	var request struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(request.name[:], device)
	request.data = unsafe.Pointer(&words[0])
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	runtime.KeepAlive(words)
	if errno != 0 {
		return nil, errno
	}
	return words, nil
}

func (g ethtoolGroup) readByIoctl(device string) (map[uint16]uint32, error) {
	w, err := ethtoolIoctl(device, g.ioctlGet, make([]uint32, g.words))
	if err != nil {
		return nil, err
	}
	values := map[uint16]uint32{}
	for i, v := range w[1:] {
		values[uint16(i)+2] = v
	}
	return values, nil
}

func (g ethtoolGroup) writeByIoctl(device string, p ethtoolParam, v uint32) error {
	w, err := ethtoolIoctl(device, g.ioctlGet, make([]uint32, g.words))
	if err != nil {
		return err
	}
	w[p.attr-1] = v
	_, err = ethtoolIoctl(device, g.ioctlSet, w)
	return err
}

// featureNames returns the kernel's names of the features, indexed by bit.
func featureNames(device string) ([]string, error) {
	// The words of struct ethtool_sset_info: cmd, reserved, a 64-bit mask, lengths.
	info := make([]uint32, 5)
	copy(info[2:], wordsOf64(1<<featureSet))
	info, err := ethtoolIoctl(device, ioctlStringSets, info)
	if err != nil {
		return nil, err
	}
	n := int(info[4])
	if n == 0 || n > maxFeatureSet {
		return nil, syscall.EOPNOTSUPP
	}
	// The words of struct ethtool_gstrings: cmd, set, length, strings.
	w := make([]uint32, 3+n*stringLength/4)
	w[1], w[2] = featureSet, uint32(n)
	if w, err = ethtoolIoctl(device, ioctlStrings, w); err != nil {
		return nil, err
	}
	var text []byte
	for _, word := range w[3:] {
		text = binary.NativeEndian.AppendUint32(text, word)
	}
	names := make([]string, n)
	for i := range names {
		names[i] = unix.ByteSliceToString(text[i*stringLength : (i+1)*stringLength])
	}
	return names, nil
}

func wordsOf64(v uint64) []uint32 {
	b := binary.NativeEndian.AppendUint64(nil, v)
	return []uint32{binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint32(b[4:])}
}

// featuresByIoctl reads struct ethtool_gfeatures: cmd, size in blocks of 32 features, and for
// each block the available, requested, active and never-changed bits.
func featuresByIoctl(device string) ([]NetParam, error) {
	names, err := featureNames(device)
	if err != nil {
		return nil, err
	}
	blocks := (len(names) + 31) / 32
	w := make([]uint32, 2+4*blocks)
	w[1] = uint32(blocks)
	if w, err = ethtoolIoctl(device, ioctlGetFeatures, w); err != nil {
		return nil, err
	}
	params := make([]NetParam, 0, len(names))
	for i, name := range names {
		has := func(column int) bool { return w[2+4*(i/32)+column]&(1<<(i%32)) != 0 }
		if name != "" {
			params = append(params, feature(name, has(2), has(1), !has(0) || has(3)))
		}
	}
	return params, nil
}

// setFeatureByIoctl writes struct ethtool_sfeatures: cmd, size, and per block
// the mask of bits to change and their requested state.
func setFeatureByIoctl(device, name string, on bool) error {
	names, err := featureNames(device)
	if err != nil {
		return err
	}
	blocks := (len(names) + 31) / 32
	w := make([]uint32, 2+2*blocks)
	w[1] = uint32(blocks)
	found := false
	for i, n := range names {
		if n == name {
			found = true
			w[2+2*(i/32)] |= 1 << (i % 32)
			if on {
				w[3+2*(i/32)] |= 1 << (i % 32)
			}
		}
	}
	if !found {
		return syscall.EOPNOTSUPP
	}
	_, err = ethtoolIoctl(device, ioctlSetFeatures, w)
	return err
}
