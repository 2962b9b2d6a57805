// Package device has the plug-ins for devices: disks, network devices, sound and video cards, USB,
// SATA hosts, platform profiles, the uncore of Intel processors and the bus clock of Eee PC
// netbooks. Each converts one section of a profile to changes. engine/plugin/table lists them.
package device
