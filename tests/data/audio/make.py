#!/usr/bin/env python3
"""Writes the audio files and expected values beside it, and the seeds of the fuzz targets wav and flac.

    python3 tests/data/audio/make.py

Needs numpy, librosa, torchaudio and soundfile. The signal is made here: a sweep with noise."""
import io
import pathlib
import struct

import librosa
import numpy as np
import soundfile
import torch

torch.version.cuda = None  # only the CPU is used
import torchaudio

HERE = pathlib.Path(__file__).parent
FUZZ = HERE.parent.parent.parent / "fuzz" / "corpus"
RATE = 8000


def signal(n):
    t = np.arange(n) / RATE
    noise = np.random.default_rng(7).standard_normal(n)
    return (0.5 * np.sin(2 * np.pi * (150 + 900 * t) * t) * np.hanning(n) + 0.01 * noise).astype(np.float32)


def save_expected():
    x = signal(2000)
    y = torch.from_numpy(x)
    mel = {"n_fft": 400, "hop_length": 200, "n_mels": 40}
    log = librosa.feature.melspectrogram(y=x.astype(np.float64), sr=RATE, n_fft=400, hop_length=160, n_mels=40,
                                         pad_mode="reflect")[:, :-1]  # Whisper's definition
    log = np.log10(np.maximum(log, 1e-10))
    mfcc = torchaudio.transforms.MFCC(RATE, 13, melkwargs=mel)(y)
    np.savez(
        HERE / "expected.npz",
        x=x,
        resample_16000=torchaudio.functional.resample(y.double(), RATE, 16000).numpy().astype(np.float32),
        resample_3000=torchaudio.functional.resample(y.double(), RATE, 3000).numpy().astype(np.float32),
        torchaudio_mel=torchaudio.transforms.MelSpectrogram(RATE, **mel)(y).numpy().T,
        torchaudio_mfcc=mfcc.numpy().T,
        torchaudio_deltas=torchaudio.functional.compute_deltas(mfcc).numpy().T,
        librosa_mfcc=librosa.feature.mfcc(y=x, sr=RATE, n_fft=512, hop_length=128, n_mels=40).T,
        librosa_filters=librosa.filters.mel(sr=RATE, n_fft=512, n_mels=40),
        whisper=((np.maximum(log, log.max() - 8) + 4) / 4).T.astype(np.float32))


def chunk(name, data):
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def wav(tag, bits, channels, data, before=b"", extensible=False):
    size = channels * ((bits + 7) // 8)
    fmt = struct.pack("<HHIIHH", 0xFFFE if extensible else tag, channels, RATE, RATE * size, size, bits)
    if extensible:
        fmt += struct.pack("<HHIH", 22, bits, 0, tag) + bytes.fromhex("000000001000800000aa00389b71")
    body = b"WAVE" + before + chunk(b"fmt ", fmt) + chunk(b"data", data)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def save_wav_seeds():
    x = signal(100)
    i16 = (x * 32767).astype("<i2")
    i24 = b"".join(struct.pack("<i", int(v * (1 << 23)))[:3] for v in x)
    for name, data in {
            "pcm8": wav(1, 8, 1, (x * 127 + 128).astype(np.uint8).tobytes()),
            "pcm16": wav(1, 16, 2, i16.tobytes()),
            "pcm24": wav(1, 24, 1, i24, before=chunk(b"LIST", b"odd")),
            "pcm32": wav(1, 32, 1, (x * (1 << 30)).astype("<i4").tobytes()),
            "float32": wav(3, 32, 1, x.astype("<f4").tobytes()),
            "float64": wav(3, 64, 2, x.astype("<f8").tobytes()),
            "extensible": wav(1, 16, 1, i16.tobytes(), extensible=True),
            "law": wav(6, 8, 1, bytes(range(100))),
            "empty": wav(1, 16, 1, b""),
            "bits12": wav(1, 12, 1, (i16 & ~15).astype("<i2").tobytes()),
    }.items():
        (FUZZ / "wav" / f"{name}.wav").write_bytes(data)


def integers(channels, bits, n):
    """int16, or int32 of which the upper bits count."""
    x = np.stack([signal(n) * (1 - 0.3 * c) for c in range(channels)], axis=1)
    return (x * (1 << 15)).astype(np.int16) if bits == 16 else (x * (1 << 30)).astype(np.int32)


def flac(channels, bits, n):
    out = io.BytesIO()
    soundfile.write(out, integers(channels, bits, n), RATE, format="FLAC", subtype=f"PCM_{bits}")
    return out.getvalue()


def save_flac():
    (HERE / "sweep.flac").write_bytes(flac(2, 16, 5000))
    soundfile.write(HERE / "sweep.wav", integers(2, 16, 5000), RATE, subtype="PCM_16")
    (FUZZ / "flac" / "stereo.flac").write_bytes(flac(2, 16, 200))
    (FUZZ / "flac" / "deep.flac").write_bytes(flac(1, 24, 100))
    silence = io.BytesIO()
    soundfile.write(silence, np.zeros(9000, np.float32), RATE, format="FLAC")
    (FUZZ / "flac" / "silence.flac").write_bytes(silence.getvalue())


for folder in ("wav", "flac"):
    (FUZZ / folder).mkdir(parents=True, exist_ok=True)
save_expected()
save_wav_seeds()
save_flac()
