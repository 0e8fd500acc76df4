package podnet

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// rules are what a gateway does to packets, in its own namespace.
type rules struct {
	conn                           *nftables.Conn
	table                          *nftables.Table
	cut, count, incoming, outgoing *nftables.Chain
}

func newRules(ns int) (*rules, error) {
	conn, err := nftables.New(nftables.WithNetNSFd(ns))
	if err != nil {
		return nil, fmt.Errorf("reaching nftables: %w", err)
	}
	r := &rules{conn: conn, table: conn.AddTable(&nftables.Table{Name: "podnet", Family: nftables.TableFamilyINet})}
	chain := func(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority nftables.ChainPriority) *nftables.Chain {
		return conn.AddChain(&nftables.Chain{Name: name, Table: r.table, Type: kind, Hooknum: hook, Priority: &priority})
	}
	r.cut = chain("cut", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, *nftables.ChainPriorityRaw-1)
	r.count = chain("count", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, *nftables.ChainPriorityRaw)
	r.incoming = chain("incoming", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, *nftables.ChainPriorityNATDest)
	r.outgoing = chain("outgoing", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, *nftables.ChainPriorityNATSource)
	return r, r.flush("the chains")
}

func (r *rules) flush(what string) error {
	if err := r.conn.Flush(); err != nil {
		return fmt.Errorf("nftables: %s: %w", what, err)
	}
	return nil
}

// link adds what is done at one end of a link: TCP packets that come from it are counted under its name, and translated, as are
// those that go over it.
func (r *rules) link(device string, e end) error {
	r.conn.AddObj(&nftables.NamedObj{Table: r.table, Name: device, Type: nftables.ObjTypeCounter, Obj: &expr.Counter{}})
	tcp := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Objref{Type: int(nftables.ObjTypeCounter), Name: device},
	}
	r.add(r.count, on(expr.MetaKeyIIFNAME, device), tcp)
	for _, t := range e.in {
		r.add(r.incoming, on(expr.MetaKeyIIFNAME, device), within(t.from, destination), nat(expr.NATTypeDestNAT, t.to))
	}
	for _, t := range e.out {
		r.add(r.outgoing, on(expr.MetaKeyOIFNAME, device), within(t.from, source), nat(expr.NATTypeSourceNAT, t.to))
	}
	return r.flush("the rules of " + device)
}

// drop makes everything that comes from a link be lost, or not any more.
func (r *rules) drop(device string, lost bool) error {
	if lost {
		r.add(r.cut, on(expr.MetaKeyIIFNAME, device), []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}})
		return r.flush("cutting " + device)
	}
	have, err := r.conn.GetRules(r.table, r.cut)
	if err != nil {
		return fmt.Errorf("nftables: the rules of %s: %w", device, err)
	}
	for _, rule := range have {
		if cmp, ok := rule.Exprs[1].(*expr.Cmp); ok && string(cmp.Data) == string(name(device)) {
			if err := r.conn.DelRule(rule); err != nil {
				return fmt.Errorf("nftables: mending %s: %w", device, err)
			}
		}
	}
	return r.flush("mending " + device)
}

// packets returns how many TCP packets came from a link.
func (r *rules) packets(device string) (uint64, error) {
	obj, err := r.conn.GetObject(&nftables.NamedObj{Table: r.table, Name: device, Type: nftables.ObjTypeCounter})
	if err != nil {
		return 0, fmt.Errorf("nftables: the counter of %s: %w", device, err)
	}
	counter, ok := obj.(*nftables.NamedObj).Obj.(*expr.Counter)
	if !ok {
		return 0, fmt.Errorf("nftables: the counter of %s is a %T", device, obj)
	}
	return counter.Packets, nil
}

func (r *rules) add(chain *nftables.Chain, parts ...[]expr.Any) {
	rule := &nftables.Rule{Table: r.table, Chain: chain}
	for _, part := range parts {
		rule.Exprs = append(rule.Exprs, part...)
	}
	r.conn.AddRule(rule)
}

// name is a device's name as the kernel compares it.
func name(device string) []byte {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, device)
	return padded
}

// on matches packets of a device.
func on(key expr.MetaKey, device string) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: name(device)}}
}

// Which address of a packet: where it is in an IPv4 header, and in an IPv6 header.
var source, destination = [2]uint32{12, 8}, [2]uint32{16, 24}

// within matches packets by the prefix of an address.
func within(p netip.Prefix, which [2]uint32) []expr.Any {
	family, offset := family(p.Addr()), which[0]
	if p.Addr().Is6() {
		offset = which[1]
	}
	size := uint32(p.Addr().BitLen() / 8)
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{byte(family)}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: net.CIDRMask(p.Bits(), int(size)*8), Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()},
	}
}

// nat replaces the prefix of an address.
func nat(kind expr.NATType, to netip.Prefix) []expr.Any {
	first := to.Masked().Addr().AsSlice()
	last := make([]byte, len(first))
	for i, m := range net.CIDRMask(to.Bits(), 8*len(first)) {
		last[i] = first[i] | ^m
	}
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: first},
		&expr.Immediate{Register: 2, Data: last},
		&expr.NAT{Type: kind, Family: family(to.Addr()), RegAddrMin: 1, RegAddrMax: 2, Prefix: true},
	}
}

func family(a netip.Addr) uint32 {
	if a.Is4() {
		return unix.NFPROTO_IPV4
	}
	return unix.NFPROTO_IPV6
}
