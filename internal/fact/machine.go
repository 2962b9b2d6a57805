package fact

import (
	"strings"
)

// Machine identifies the hardware. Source: SMBIOS in /sys/class/dmi/id
// (Documentation/ABI/testing/sysfs-class-dmi), or the device tree. Serial
// numbers are not read.
type Machine struct {
	Vendor          Fact[string] `json:"vendor"`
	Product         Fact[string] `json:"product"`
	ProductVersion  Fact[string] `json:"product_version"`
	BoardVendor     Fact[string] `json:"board_vendor"`
	Board           Fact[string] `json:"board"`
	FirmwareVendor  Fact[string] `json:"firmware_vendor"`
	FirmwareVersion Fact[string] `json:"firmware_version"`
	FirmwareDate    Fact[string] `json:"firmware_date"`
	ChassisType     Fact[int64]  `json:"chassis_type"` // SMBIOS 7.4.1: 1 other, 3 desktop, 10 notebook, 17 main server, 23 rack mount
	AssetTag        Fact[string] `json:"asset_tag"`
	EFI             Fact[bool]   `json:"efi"`
}

const dmi = "/sys/class/dmi/id/"

func collectMachine(r *reader, f *Facts) {
	m := &f.Machine
	m.Vendor = r.dmi("sys_vendor")
	m.Product = firstKnown(r.dmi("product_name"), r.str("/proc/device-tree/model"))
	m.ProductVersion = r.dmi("product_version")
	m.BoardVendor = r.dmi("board_vendor")
	m.Board = r.dmi("board_name")
	m.FirmwareVendor = r.dmi("bios_vendor")
	m.FirmwareVersion = r.dmi("bios_version")
	m.FirmwareDate = r.dmi("bios_date")
	m.ChassisType = r.int(dmi + "chassis_type")
	m.AssetTag = r.dmi("chassis_asset_tag")
	m.EFI = r.exists("/sys/firmware/efi")
}

// placeholderValues are SMBIOS values of vendors that did not fill in a field.
var placeholderValues = map[string]bool{
	"to be filled by o.e.m.": true, "not specified": true, "none": true, "default string": true,
	"system product name": true, "system manufacturer": true, "unknown": true, "n/a": true, "o.e.m.": true,
	"no asset tag": true, "no asset information": true, "0123456789": true,
}

func (r *reader) dmi(name string) Fact[string] {
	text, n := r.nonEmpty(dmi + name)
	text = strings.TrimSpace(text)
	if n.known() && (text == "" || placeholderValues[strings.ToLower(text)]) {
		return Absent[string](dmi + name)
	}
	return withNote(n, text)
}
