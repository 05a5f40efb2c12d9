"""Computes vectors.txt from the formulas of the specification with nothing but
Python's hmac, hashlib and pow: python3 vectors.py >vectors.txt"""

import base64, hashlib, hmac, random, struct, zlib

HOST = b"nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
SUBSYSTEM = b"nqn.2026-01.org.example:vectors"
HASHES = {1: hashlib.sha256, 2: hashlib.sha384, 3: hashlib.sha512}
GROUPS = {0: None, 1: (2048, 560316, 256), 2: (3072, 2625351, 320), 3: (4096, 5736041, 384),
          4: (6144, 15705020, 448), 5: (8192, 10965728, 512)}


def e_times_power_of_two(bits):
    term = 1 << bits + 64
    total, k = 0, 0
    while term:
        total, k = total + term, k + 1
        term //= k
    return total >> 64


def prime(bits, x):
    return 2**bits - 2**(bits - 64) + (e_times_power_of_two(bits - 130) + x) * 2**64 - 1


def text(kind, secret):
    return "DHHC-1:%02x:%s:" % (kind, base64.b64encode(secret + struct.pack("<I", zlib.crc32(secret))).decode())


def transformed(kind, secret, name):
    return hmac.new(secret, name + b"NVMe-over-Fabrics", HASHES[kind]).digest() if kind else secret


def response(h, key, challenge, shared, seq, tid, role, who, whom):
    if shared is not None:
        challenge = hmac.new(h(shared).digest(), challenge, h).digest()
    covered = challenge + struct.pack("<IHB", seq, tid, 0) + role + who + b"\0" + whom
    return hmac.new(key, covered, h).digest()


rnd = random.Random(7919)
n = 0
for hid, h in HASHES.items():
    for gid, group in GROUPS.items():
        size = h().digest_size
        kinds = n % 4, (n + 1) % 4
        secrets = [rnd.randbytes((32, 32, 48, 64)[k]) for k in kinds]
        tid, s1, s2 = rnd.randrange(1 << 16), rnd.randrange(1, 1 << 32), rnd.randrange(1, 1 << 32)
        c1, c2 = rnd.randbytes(size), rnd.randbytes(size)
        x = y = gx = gy = b""
        shared = None
        if group:
            bits, offset, exponent = group
            p = prime(bits, offset)
            x, y = rnd.randbytes(exponent // 8), rnd.randbytes(exponent // 8)
            gx, gy = (pow(2, int.from_bytes(v, "big"), p) for v in (x, y))
            shared = pow(gx, int.from_bytes(y, "big"), p).to_bytes(bits // 8, "big")
            gx, gy = (v.to_bytes(bits // 8, "big") for v in (gx, gy))
        rh = response(h, transformed(kinds[0], secrets[0], HOST), c1, shared, s1, tid, b"HostHost", HOST, SUBSYSTEM)
        rc = response(h, transformed(kinds[1], secrets[1], SUBSYSTEM), c2, shared, s2, tid, b"Controller", SUBSYSTEM, HOST)
        challenge = struct.pack("<BBHHBBBBHI", 1, 1, 0, tid, size, 0, hid, gid, len(gx), s1) + c1 + gx
        reply = struct.pack("<BBHHBBBBHI", 1, 2, 0, tid, size, 0, 1, 0, len(gy), s2) + rh + c2 + gy
        success1 = struct.pack("<BBHHBBB7x", 1, 3, 0, tid, size, 0, 1) + rc
        messages = [hashlib.sha256(m).hexdigest() for m in (challenge, reply, success1)]
        print(hid, gid, text(kinds[0], secrets[0]), text(kinds[1], secrets[1]), tid, s1, s2,
              *[v.hex() or "-" for v in (c1, c2, x, y, rh, rc)], *messages)
        n += 1
