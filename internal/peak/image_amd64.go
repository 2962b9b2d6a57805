package peak

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"unsafe"
)

// program is the starter's code, and programEnd is its end. Neither is called.
func program()    //nolint:unused // the assembler's
func programEnd() //nolint:unused // the assembler's

// bounds returns the addresses of program and programEnd.
func bounds() (begin, end *byte)

// longest exceeds the size of the starter's code, in bytes. A larger distance means that the
// linker placed other code between program and programEnd.
const longest = 1024

// image returns the starter as an executable file of at most one page: an ELF header, the
// code, and a stack that is not executable.
func image() ([]byte, error) {
	begin, end := bounds()
	size := uintptr(unsafe.Pointer(end)) - uintptr(unsafe.Pointer(begin))
	if size == 0 || size > longest {
		return nil, errors.New("the starter's code is not contiguous")
	}
	const at, page = 0x400000, 0x1000
	var header elf.Header64
	segments := []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: at, Paddr: at, Align: page},
		{Type: uint32(elf.PT_GNU_STACK), Flags: uint32(elf.PF_R | elf.PF_W), Align: 16},
	}
	before := binary.Size(header) + binary.Size(segments)
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	header.Type, header.Machine, header.Version = uint16(elf.ET_EXEC), uint16(elf.EM_X86_64), uint32(elf.EV_CURRENT)
	header.Entry, header.Phoff, header.Ehsize = at+uint64(before), uint64(binary.Size(header)), uint16(binary.Size(header))
	header.Phentsize, header.Phnum = uint16(binary.Size(segments[0])), uint16(len(segments))
	segments[0].Filesz = uint64(before) + uint64(size)
	segments[0].Memsz = segments[0].Filesz
	var out bytes.Buffer
	if err := errors.Join(binary.Write(&out, binary.LittleEndian, header), binary.Write(&out, binary.LittleEndian, segments)); err != nil {
		return nil, err
	}
	out.Write(unsafe.Slice(begin, size))
	return out.Bytes(), nil
}
